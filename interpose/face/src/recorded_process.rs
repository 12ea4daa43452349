//! Rank whose effects on files the runtime records, and the facts that this requires.
#![allow(unsafe_code)]

use crate::sys::{nr, sys};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::descriptor_facts::DescriptorFacts;

/// Facts about the program's descriptors; null in an unprotected process.
static DESCRIPTOR_FACTS: AtomicPtr<DescriptorFacts> = AtomicPtr::new(null_mut());

/// Stores the address of the facts, which belong to the runtime.
pub fn connect(facts: *const DescriptorFacts) {
    DESCRIPTOR_FACTS.store(facts.cast_mut(), Ordering::Release);
}

/// Returns the facts about the program's descriptors, unless the process is unprotected.
#[inline]
pub fn descriptor_facts() -> Option<&'static DescriptorFacts> {
    // SAFETY: null, or the runtime's structure, which lives as long as the process.
    unsafe { DESCRIPTOR_FACTS.load(Ordering::Acquire).as_ref() }
}

/// Returns true in a rank whose effects are recorded, and in forks of that rank.
pub fn is_protected() -> bool {
    descriptor_facts().is_some_and(DescriptorFacts::is_recording)
}

/// A rank, to which its child processes report effects.
#[derive(Clone, Copy)]
pub struct Parent {
    pub process: isize,
    /// Inode of the process's pid namespace.
    pub namespace: u64,
}

/// Returns the rank whose program this process executes.
///
/// The rank is the process itself, or an ancestor of which the process is a fork. `None` unless the
/// rank records effects of its children.
pub fn parent() -> Option<Parent> {
    let (process, namespace) = descriptor_facts().and_then(DescriptorFacts::parent)?;
    Some(Parent {
        process: process as isize,
        namespace,
    })
}

/// Returns true in a forked child of a rank that still executes the rank's program.
pub fn is_forked() -> bool {
    // SAFETY: getpid(2) has no preconditions.
    parent().is_some_and(|parent| parent.process != unsafe { sys!(nr::GETPID) })
}
