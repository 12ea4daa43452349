//! List of namespaces that ld.so keeps for debuggers.
#![allow(unsafe_code)]

use crate::link_map::LinkMap;
use core::iter;

/// glibc's `struct r_debug_extended`, the symbol `_r_debug`.
#[repr(C)]
#[derive(Debug)]
pub struct LoaderDebug {
    version: i32,
    objects: *const LinkMap,
    changed: usize,
    state: i32,
    loader: usize,
    /// Absent before version [`FIRST_LINKED_VERSION`].
    next: *const LoaderDebug,
}

/// First version of the structure with a successor.
const FIRST_LINKED_VERSION: i32 = 2;

impl LoaderDebug {
    /// Returns the executable's record, the first one of its namespace.
    ///
    /// # Safety
    /// `list` must be the address of `_r_debug`.
    pub unsafe fn first(list: *const LoaderDebug) -> *const LinkMap {
        // SAFETY: guaranteed by the caller. Only this field is read, because the last field may be
        // absent.
        unsafe { (&raw const (*list).objects).read() }
    }

    /// Returns the number of link-map namespaces (dlmopen(3)).
    ///
    /// # Safety
    /// `list` must be the address of `_r_debug`, or null.
    pub unsafe fn namespaces(list: *const LoaderDebug) -> usize {
        let existing = |at: *const LoaderDebug| (!at.is_null()).then_some(at);
        // SAFETY: an element of the list. Elements have a successor field from version
        // [`FIRST_LINKED_VERSION`] on.
        let next = |at: &*const LoaderDebug| unsafe {
            let is_extended = (&raw const (**at).version).read() >= FIRST_LINKED_VERSION;
            existing(if is_extended {
                (**at).next
            } else {
                core::ptr::null()
            })
        };
        iter::successors(existing(list), next).count()
    }
}
