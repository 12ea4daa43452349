//! Mappings of the user side that other processes may share, or may not get: counted, so that the
//! runtime looks for them only if there have been any. The same of protection keys.
#![allow(unsafe_code)]

use crate::overwrites::before_map;
use crate::told::told;
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

static MADE: AtomicU32 = AtomicU32::new(0);
static KEYS: AtomicU32 = AtomicU32::new(0);

/// Where the runtime may read how many such mappings the user side has made.
pub fn made() -> *const u32 {
    MADE.as_ptr()
}

/// Where it may read how many protection keys that has asked for.
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
    fn mmap(at: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        count_mmap(flags, fd)
    }
    fn mmap64(at: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        count_mmap(flags, fd)
    }
    fn pkey_alloc(flags: c_uint, rights: c_uint) -> c_int { count_key() }
    fn shmat(id: c_int, at: *const c_void, flags: c_int) -> *mut c_void { count_shmat() }
}
