//! Signal handlers of the MPI side.
#![allow(unsafe_code)]

use super::mpi_zone::is_mpi;
use std::ffi::c_int;
use understudy_abi::OWN_SIGNALS;

/// `struct sigaction` of the kernel: handler, flags, restorer, mask (rt_sigaction(2)).
pub type Action = [usize; 4];

const SIGNALS: c_int = 64;

/// Returns the action of a signal and, if `new` is given, replaces it.
///
/// Makes the system call itself: libc's function refuses signals 32 and 33.
pub fn action(signal: c_int, new: Option<&Action>) -> Action {
    let mut old: Action = [0; 4];
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: rt_sigaction(2) reads and writes structures of this size; the mask has eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, &raw mut old, 8usize) };
    old
}

/// Blocks a signal in this thread, until the current signal handler returns.
pub fn block(signal: c_int) {
    set_mask(libc::SIG_BLOCK, 1 << (signal - 1));
}

/// Guard during which this thread blocks signals: by default all except [`OWN_SIGNALS`].
pub struct SignalGuard {
    previous: u64,
}

impl SignalGuard {
    /// Returns a guard during which this thread blocks one signal.
    pub fn for_signal(signal: c_int) -> SignalGuard {
        SignalGuard {
            previous: set_mask(libc::SIG_BLOCK, 1 << (signal - 1)),
        }
    }

    #[allow(clippy::new_without_default)]
    pub fn new() -> SignalGuard {
        SignalGuard {
            previous: set_mask(libc::SIG_BLOCK, !OWN_SIGNALS),
        }
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, self.previous);
    }
}

/// Changes the signals that this thread blocks, and returns the previous ones.
fn set_mask(how: c_int, signals: u64) -> u64 {
    let mut previous = 0u64;
    // SAFETY: rt_sigprocmask(2) of sets of eight bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const signals,
            &raw mut previous,
            size_of::<u64>(),
        )
    };
    previous
}

/// Actions of all signals, from signal 1 on.
pub struct SavedSignals(Vec<Action>);

impl SavedSignals {
    pub fn take() -> SavedSignals {
        SavedSignals((1..=SIGNALS).map(|signal| action(signal, None)).collect())
    }

    /// Replaces handlers that the library has installed since the snapshot.
    ///
    /// The program's handlers stay.
    pub fn put_back(&self) {
        for (signal, saved) in (1..).zip(&self.0) {
            let current = action(signal, None);
            if is_mpi(current[0]) && current != *saved {
                action(signal, Some(saved));
            }
        }
    }
}
