//! Signal dispositions, the signal mask, the working directory and the file mode creation mask.
#![allow(unsafe_code)]

pub(super) mod action;
mod waiting_signals;

use crate::arch::turn;
pub use action::{Action, action, mask};
use action::{IGNORE, SIG_DFL, SIG_IGN, SIGNALS};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use understudy_abi::OWN_SIGNALS;
use understudy_abi::turn::LET_THROUGH;
use understudy_abi::{ZONE_END, ZONE_START};
use understudy_catalogue::message;
use understudy_formats::events::realtime_ns;
use understudy_mpi::cancellation;
use waiting_signals::Waiting;

/// Process-wide settings that the program may have changed.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct Saved {
    actions: Vec<Action>,
    mask: u64,
    directory: Vec<u8>,
    creation_mask: u32,
    /// Signals that are pending for this process or this thread.
    pending: Vec<Waiting>,
    /// Time at which the pending signals were read, in nanoseconds since 1970.
    at: u64,
    /// libc's handler of SIGCANCEL, which the runtime's handler calls.
    cancellation: [u64; 2],
}

fn belongs_to_runtime(action: &Action) -> bool {
    (ZONE_START as u64..ZONE_END as u64).contains(&action[0])
}

fn actions() -> Vec<Action> {
    (1..=SIGNALS).map(|signal| action(signal, None)).collect()
}

/// Keeps handlers of the program from running while a thread is in the runtime.
///
/// Handlers of signals in [`LET_THROUGH`] may run.
fn keep_out(actions: &[Action]) {
    let is_handled = |(number, action): (usize, &Action)| {
        action[0] > SIG_IGN && !belongs_to_runtime(action) && LET_THROUGH >> number & 1 == 0
    };
    if actions.iter().enumerate().any(is_handled) {
        turn::has_handlers();
    }
}

/// Applies `keep_out` to the current handlers. Later ones are reported when the program sets them.
pub fn keep_out_handlers() {
    keep_out(&actions());
}

pub fn capture() -> Saved {
    let directory = std::env::current_dir().map(|path| path.as_os_str().as_bytes().to_vec());
    // SAFETY: umask(2), which can only be read by setting it.
    let creation_mask = unsafe {
        let creation_mask = libc::umask(0);
        libc::umask(creation_mask);
        creation_mask
    };
    cancellation::take_back();
    let actions = actions();
    keep_out(&actions);
    Saved {
        actions,
        mask: turn::mask().unwrap_or_else(|| mask(None)),
        directory: directory.unwrap_or_default(),
        creation_mask,
        pending: waiting_signals::capture(),
        at: realtime_ns(),
        cancellation: cancellation::of_program(),
    }
}

impl Saved {
    /// Returns the signals that the thread that made the cut has blocked.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Resends the signals that the launcher has sent to all processes since the cut.
    ///
    /// Includes signals that were sent before the cut whose handlers had not run yet. `passed`
    /// lists each signal with the time at which it was last sent. Only signals for which the
    /// program had a handler at the cut are resent.
    pub fn send_again(&self, passed: impl Iterator<Item = (i32, u64)>) {
        for (signal, time) in passed {
            let place = signal as usize - 1;
            // Blocked signals have already been made pending.
            let is_blocked = self.mask >> place & 1 != 0;
            let was_pending = !is_blocked && self.pending.iter().any(|it| it.signal == signal);
            let is_missing = time > self.at || time > 0 && was_pending;
            if is_missing && self.actions[place][0] > SIG_IGN {
                log::info!("signal {signal} was sent after the checkpoint: it is sent again");
                // SAFETY: kill(2) to this process.
                unsafe { libc::kill(libc::getpid(), signal) };
            }
        }
    }
}

/// Removes a pending signal, which must be blocked.
pub fn forget(signal: i32) {
    waiting_signals::take_one(signal);
}

/// Restores the pending signals of the cut.
///
/// Must be called before the main thread's mask is set. Resends only the signals that the thread
/// blocked at the cut.
fn restore_pending(saved: &Saved) {
    mask(Some(mask(None) | !OWN_SIGNALS));
    let is_blocked = |it: &&Waiting| saved.mask >> (it.signal - 1) & 1 != 0;
    let blocked: Vec<Waiting> = saved.pending.iter().filter(is_blocked).cloned().collect();
    waiting_signals::restore(&blocked);
}

/// Restores dispositions, masks and the working directory.
///
/// A pending signal for which the program had no handler at the cut is discarded, because its
/// default action could end the process. Handlers of the runtime side are not changed. The signal
/// mask is this thread's only if it made the cut (`is_callers`).
pub fn restore(saved: &Saved, is_callers: bool) {
    keep_out(&saved.actions);
    cancellation::restore_program(saved.cancellation);
    for (signal, before) in (1..=SIGNALS).zip(&saved.actions) {
        if action(signal, None) != *before && !belongs_to_runtime(before) {
            if before[0] == SIG_DFL {
                action(signal, Some(&IGNORE));
            }
            action(signal, Some(before));
        }
    }
    if is_callers {
        restore_pending(saved);
        mask(Some(saved.mask));
    }
    // SAFETY: umask(2), chdir(2) with values that were read before.
    unsafe {
        libc::umask(saved.creation_mask);
        if let Ok(directory) = CString::new(saved.directory.clone())
            && libc::chdir(directory.as_ptr()) != 0
        {
            log::warn!(
                "{}",
                message::directory_not_entered(directory.to_string_lossy())
            );
        }
    }
}
