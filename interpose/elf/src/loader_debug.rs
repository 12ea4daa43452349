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

/// First version of the structure that has the field `next`.
const FIRST_LINKED_VERSION: i32 = 2;

impl LoaderDebug {
    /// Returns the executable's record, the first record of its namespace.
    ///
    /// # Safety
    /// `list` must be the address of `_r_debug`.
    pub unsafe fn first(list: *const LoaderDebug) -> *const LinkMap {
        // SAFETY: the caller guarantees that `list` is the address of `_r_debug`. Only the field
        // `objects` is read, because the field `next` may be absent.
        unsafe { (&raw const (*list).objects).read() }
    }

    /// Counts the link-map namespaces (dlmopen(3)), each of which has one element in the list.
    ///
    /// # Safety
    /// `list` must be the address of `_r_debug`, or null.
    pub unsafe fn count_namespaces(list: *const LoaderDebug) -> usize {
        let non_null = |element: *const LoaderDebug| (!element.is_null()).then_some(element);
        // SAFETY: the caller guarantees that `list` is ld.so's list, so `element` is one of its
        // elements. The field `next` is read only if the element has the field.
        let next = |element: &*const LoaderDebug| unsafe {
            let has_next = (&raw const (**element).version).read() >= FIRST_LINKED_VERSION;
            non_null(if has_next {
                (**element).next
            } else {
                core::ptr::null()
            })
        };
        iter::successors(non_null(list), next).count()
    }
}
