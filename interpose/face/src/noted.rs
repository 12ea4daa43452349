//! Process whose effects on files the runtime records.
#![allow(unsafe_code)]

use crate::sys::{nr, sys};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::written::Written;

/// The runtime's table, or null in an unprotected process.
static WRITTEN: AtomicPtr<Written> = AtomicPtr::new(null_mut());

/// Stores the address of the runtime's table.
pub fn connect(written: *const Written) {
    WRITTEN.store(written.cast_mut(), Ordering::Release);
}

/// Returns the runtime's table.
#[inline]
pub fn written() -> Option<&'static Written> {
    // SAFETY: null, or the runtime's table, which lives as long as the process.
    unsafe { WRITTEN.load(Ordering::Acquire).as_ref() }
}

/// Returns true in a rank whose effects are recorded, and in forks of that rank.
pub fn is_protected() -> bool {
    written().is_some_and(Written::is_noting)
}

/// A process that records effects of its children.
#[derive(Clone, Copy)]
pub struct Parent {
    pub process: isize,
    /// Inode of the process's pid namespace.
    pub namespace: u64,
}

/// Returns this process or its forking ancestor, which records effects of children.
pub fn parent() -> Option<Parent> {
    let (process, namespace) = written().and_then(Written::parent)?;
    Some(Parent {
        process: process as isize,
        namespace,
    })
}

/// Returns true in a forked child of a rank that still executes the rank's program.
pub fn is_forked() -> bool {
    // SAFETY: getpid(2).
    parent().is_some_and(|parent| parent.process != unsafe { sys!(nr::GETPID) })
}
