//! The process whose effects on files the runtime notes.
#![allow(unsafe_code)]

use crate::sys::{nr, sys};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::written::Written;

/// The runtime's table; null in a process that is not protected.
static WRITTEN: AtomicPtr<Written> = AtomicPtr::new(null_mut());

/// Records the runtime's table.
pub fn connect(written: *const Written) {
    WRITTEN.store(written.cast_mut(), Ordering::Release);
}

/// Returns the runtime's table.
#[inline]
pub fn written() -> Option<&'static Written> {
    // SAFETY: null, or the runtime's, which lives as long as the process.
    unsafe { WRITTEN.load(Ordering::Acquire).as_ref() }
}

/// Returns true in a rank whose effects are noted, and in forks of that rank.
pub fn is_protected() -> bool {
    written().is_some_and(Written::is_noting)
}

/// Returns the rank that has forked this process, or an ancestor without another program since.
pub fn forking_rank() -> Option<i32> {
    let rank = written().and_then(Written::parent)?;
    // SAFETY: getpid(2).
    (unsafe { sys!(nr::GETPID) } != rank as isize).then_some(rank)
}
