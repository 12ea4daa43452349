//! Role of this process, for any thread and for signal handlers.
//!
//! The flags are not in the `Runtime`, so that signal handlers and lower crates can read them.

use std::sync::atomic::{AtomicU8, Ordering};

/// Role flags of this process.
static ROLE: AtomicU8 = AtomicU8::new(0);
const IS_INITIALISED: u8 = 1;
const IS_PROTECTED: u8 = 2;
const IS_WORKER: u8 = 4;

/// Sets the flags of a process that has called MPI_Init.
pub fn publish(is_protected: bool, is_worker: bool) {
    let flag_if = |condition: bool, flag: u8| if condition { flag } else { 0 };
    let flags =
        IS_INITIALISED | flag_if(is_protected, IS_PROTECTED) | flag_if(is_worker, IS_WORKER);
    ROLE.store(flags, Ordering::Relaxed);
}

/// True if MPI_Init has been called. Safe in any thread and in a signal handler.
pub fn is_initialised() -> bool {
    ROLE.load(Ordering::Relaxed) & IS_INITIALISED != 0
}

/// True between MPI_Init and MPI_Finalize of a job whose failures are recovered.
///
/// Safe in any thread and in a signal handler.
#[inline]
pub fn is_protected() -> bool {
    ROLE.load(Ordering::Relaxed) & IS_PROTECTED != 0
}

/// True if this process is a worker that has not finalised MPI.
///
/// Safe in any thread and in a signal handler.
pub fn is_worker() -> bool {
    ROLE.load(Ordering::Relaxed) & IS_WORKER != 0
}
