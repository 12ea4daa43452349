//! Counts the program side's shared mappings and mappings of huge pages, and protection keys.
//!
//! The runtime searches for such mappings only if the count is positive.
#![allow(unsafe_code)]

use crate::overwrites::before_map;
use crate::told::told;
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);
static KEYS: AtomicU32 = AtomicU32::new(0);

/// Returns the address of the number of such mappings.
pub fn made() -> *const u32 {
    MADE.as_ptr()
}

/// Returns the address of the number of protection keys.
pub fn keys() -> *const u32 {
    KEYS.as_ptr()
}

fn count_key() -> bool {
    KEYS.fetch_add(1, Ordering::Relaxed);
    false
}

fn count_mmap(flags: c_int, fd: c_int) -> bool {
    const MAP_SHARED: c_int = 1;
    const MAP_HUGETLB: c_int = 0x40000;
    if flags & MAP_SHARED != 0 && fd >= 0 || flags & MAP_HUGETLB != 0 {
        MADE.fetch_add(1, Ordering::Relaxed);
    }
    before_map(flags, fd)
}

fn count_shmat() -> bool {
    MADE.fetch_add(1, Ordering::Relaxed);
    false
}

told! {
    fn mmap(
        at: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64
    ) -> *mut c_void {
        count_mmap(flags, fd)
    }
    fn mmap64(
        at: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64
    ) -> *mut c_void {
        count_mmap(flags, fd)
    }
    fn pkey_alloc(flags: c_uint, rights: c_uint) -> c_int { count_key() }
    fn shmat(id: c_int, at: *const c_void, flags: c_int) -> *mut c_void { count_shmat() }
}
