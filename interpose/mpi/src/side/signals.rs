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
/// The system call is made without libc, which reserves two signals.
pub fn action(signal: c_int, new: Option<&Action>) -> Action {
    let mut old: Action = [0; 4];
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: rt_sigaction(2) reads and writes structures of this size; the mask has eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, &raw mut old, 8usize) };
    old
}

/// Blocks a signal in this thread until the current signal handler returns.
///
/// The system call is made without libc.
pub fn block(signal: c_int) {
    set_mask(libc::SIG_BLOCK, 1 << (signal - 1));
}

/// Guard during which this thread handles only [`OWN_SIGNALS`].
pub struct Blocked {
    before: u64,
}

impl Blocked {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Blocked {
        Blocked {
            before: set_mask(libc::SIG_BLOCK, !OWN_SIGNALS),
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, self.before);
    }
}

/// Changes the signals that this thread blocks, and returns the previous ones.
///
/// The system call is made without libc.
fn set_mask(how: c_int, signals: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: rt_sigprocmask(2) of sets of eight bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const signals,
            &raw mut before,
            size_of::<u64>(),
        )
    };
    before
}

/// Actions of all signals, from signal 1 on.
pub struct Saved(Vec<Action>);

impl Saved {
    pub fn take() -> Saved {
        Saved((1..=SIGNALS).map(|signal| action(signal, None)).collect())
    }

    /// Replaces handlers that the library has installed since; the program's handlers stay.
    pub fn put_back(&self) {
        for (signal, before) in (1..).zip(&self.0) {
            let now = action(signal, None);
            if is_mpi(now[0]) && now != *before {
                action(signal, Some(before));
            }
        }
    }
}
