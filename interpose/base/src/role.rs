//! Role of this process, for any thread and for signal handlers.
//!
//! This module does not use the `Runtime`, so that code below the job's state can use it.

use std::sync::atomic::{AtomicU8, Ordering};

/// Role flags of this process.
static ROLE: AtomicU8 = AtomicU8::new(0);
const IS_INITIALISED: u8 = 1;
const IS_PROTECTED: u8 = 2;
const IS_PLAYING: u8 = 4;

/// Publishes the role of a process that has called MPI_Init.
pub fn publish(is_protected: bool, is_playing: bool) {
    let flag = |flag: u8, holds: bool| if holds { flag } else { 0 };
    let flags = IS_INITIALISED | flag(IS_PROTECTED, is_protected) | flag(IS_PLAYING, is_playing);
    ROLE.store(flags, Ordering::Relaxed);
}

/// True if MPI_Init has been called. Safe in any thread and in a signal handler.
pub fn is_initialised() -> bool {
    ROLE.load(Ordering::Relaxed) & IS_INITIALISED != 0
}

/// True while failures are recovered. Safe in any thread and in a signal handler.
#[inline]
pub fn is_protected() -> bool {
    ROLE.load(Ordering::Relaxed) & IS_PROTECTED != 0
}

/// True if this process is a worker that has not finalised MPI.
///
/// Safe in any thread and in a signal handler.
pub fn is_playing() -> bool {
    ROLE.load(Ordering::Relaxed) & IS_PLAYING != 0
}
