//! State of signals, the working directory and the file mode creation mask.
#![allow(unsafe_code)]

pub(super) mod action;
mod pending_signals;

use crate::arch::mpi_lock;
pub use action::{Action, action, mask};
use action::{IGNORE, SIG_DFL, SIG_IGN, SIGNALS};
use pending_signals::PendingSignal;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use understudy_abi::OWN_SIGNALS;
use understudy_abi::mpi_lock::UNBLOCKED_SIGNALS;
use understudy_abi::{ZONE_END, ZONE_START};
use understudy_catalogue::message;
use understudy_formats::events::realtime_ns;
use understudy_mpi::cancellation;

/// Signals, working directory and file mode creation mask at a cut.
#[derive(Clone, Debug, Default, bincode::Encode, bincode::Decode)]
pub struct SignalState {
    actions: Vec<Action>,
    mask: u64,
    directory: Vec<u8>,
    creation_mask: u32,
    /// Signals that are pending for this process or this thread.
    pending: Vec<PendingSignal>,
    /// Time at which the pending signals were read, in nanoseconds since 1970.
    captured_at_ns: u64,
    /// libc's handler of SIGCANCEL, which the runtime's handler calls.
    cancellation: [u64; 2],
}

fn belongs_to_runtime(action: &Action) -> bool {
    (ZONE_START as u64..ZONE_END as u64).contains(&action[0])
}

fn actions() -> Vec<Action> {
    (1..=SIGNALS).map(|signal| action(signal, None)).collect()
}

/// Makes the MPI lock block signals if the program has handlers for them.
///
/// Otherwise a handler of the program could run while its thread is in the runtime. Handlers of
/// signals in [`UNBLOCKED_SIGNALS`] may run.
fn keep_out(actions: &[Action]) {
    let is_handled = |(number, action): (usize, &Action)| {
        action[0] > SIG_IGN && !belongs_to_runtime(action) && UNBLOCKED_SIGNALS >> number & 1 == 0
    };
    if actions.iter().enumerate().any(is_handled) {
        mpi_lock::record_signal_handlers();
    }
}

/// Applies `keep_out` to the current handlers.
///
/// Later handlers are reported when the program sets them.
pub fn keep_out_handlers() {
    keep_out(&actions());
}

pub fn capture() -> SignalState {
    let directory = std::env::current_dir().map(|path| path.as_os_str().as_bytes().to_vec());
    // SAFETY: umask(2) accesses no memory. The mask can only be read by setting it, so it is set
    // back at once.
    let creation_mask = unsafe {
        let creation_mask = libc::umask(0);
        libc::umask(creation_mask);
        creation_mask
    };
    cancellation::restore_handler();
    let actions = actions();
    keep_out(&actions);
    SignalState {
        actions,
        mask: mpi_lock::blocked_signals().unwrap_or_else(|| mask(None)),
        directory: directory.unwrap_or_default(),
        creation_mask,
        pending: pending_signals::capture(),
        captured_at_ns: realtime_ns(),
        cancellation: cancellation::of_program(),
    }
}

impl SignalState {
    /// Returns the signals that the thread that made the cut has blocked.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Resends the signals that the launcher has sent to all processes since the cut.
    ///
    /// Includes signals that were sent before the cut and whose handlers had not run yet. `sent`
    /// contains each signal with the time at which it was last sent. Only signals for which the
    /// program had a handler at the cut are resent.
    pub fn resend(&self, sent: impl Iterator<Item = (i32, u64)>) {
        for (signal, time) in sent {
            let index = signal as usize - 1;
            // Blocked signals have already been made pending.
            let is_blocked = self.mask >> index & 1 != 0;
            let was_pending =
                !is_blocked && self.pending.iter().any(|pending| pending.signal == signal);
            let is_missing = time > self.captured_at_ns || time > 0 && was_pending;
            if is_missing && self.actions[index][0] > SIG_IGN {
                log::info!("signal {signal} was sent after the checkpoint: it is sent again");
                // SAFETY: kill(2) accesses no memory; its target is this process.
                unsafe { libc::kill(libc::getpid(), signal) };
            }
        }
    }
}

/// Removes a pending signal, which must be blocked.
pub fn discard_pending(signal: i32) {
    pending_signals::receive(signal);
}

/// Restores the pending signals of the cut.
///
/// Must be called before the main thread's mask is set. Resends only the signals that the thread
/// blocked at the cut.
fn restore_pending(saved: &SignalState) {
    mask(Some(mask(None) | !OWN_SIGNALS));
    let is_blocked = |it: &&PendingSignal| saved.mask >> (it.signal - 1) & 1 != 0;
    let blocked: Vec<PendingSignal> = saved.pending.iter().filter(is_blocked).cloned().collect();
    pending_signals::restore(&blocked);
}

/// Restores dispositions, pending signals, masks and the working directory.
///
/// A pending signal for which the program had no handler at the cut is discarded, because its
/// default action could end the process. Handlers of the runtime side are not changed. The signal
/// mask and the pending signals are restored only if this thread made the cut (`is_callers`).
pub fn restore(saved: &SignalState, is_callers: bool) {
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
    // SAFETY: umask(2) and chdir(2) with values that were read before; the path is a valid string.
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
