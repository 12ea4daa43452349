//! Counts calls of the program that create special mappings, or protection keys.
//!
//! Special mappings are shared mappings of files, System V segments, and mappings of huge pages.
//! The runtime searches for such mappings only if their count is positive. The module also reports
//! shared mappings of files to the runtime ([`report_mapping`]).
#![allow(unsafe_code)]

use crate::effect_reports::reporting_functions;
use crate::overwrites::report_mapping;
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

static MAPPING_COUNT: AtomicU32 = AtomicU32::new(0);
static KEY_COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns the address of the number of special mappings that have been requested.
pub fn mapping_count() -> *const u32 {
    MAPPING_COUNT.as_ptr()
}

/// Returns the address of the number of protection keys that have been requested.
pub fn key_count() -> *const u32 {
    KEY_COUNT.as_ptr()
}

// The functions below return true if stops of the calling thread are blocked
// ([`reporting_functions`]).

fn count_key() -> bool {
    KEY_COUNT.fetch_add(1, Ordering::Relaxed);
    false
}

fn count_mmap(flags: c_int, fd: c_int) -> bool {
    const MAP_SHARED: c_int = 1;
    const MAP_HUGETLB: c_int = 0x40000;
    if flags & MAP_SHARED != 0 && fd >= 0 || flags & MAP_HUGETLB != 0 {
        MAPPING_COUNT.fetch_add(1, Ordering::Relaxed);
    }
    report_mapping(flags, fd)
}

fn count_shmat() -> bool {
    MAPPING_COUNT.fetch_add(1, Ordering::Relaxed);
    false
}

reporting_functions! {
    fn mmap(
        address: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64
    ) -> *mut c_void {
        count_mmap(flags, fd)
    }
    fn mmap64(
        address: *mut c_void, length: usize, access: c_int, flags: c_int, fd: c_int, offset: i64
    ) -> *mut c_void {
        count_mmap(flags, fd)
    }
    fn pkey_alloc(flags: c_uint, rights: c_uint) -> c_int { count_key() }
    fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void { count_shmat() }
}
