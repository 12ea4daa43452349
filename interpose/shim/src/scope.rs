//! Libraries that are opened for all to see: in a namespace of dlmopen(3) ld.so has no such scope,
//! and crashes (glibc's bug 18684).
//!
//! Open MPI opens its components so. They name what they need, and find that without.
#![allow(unsafe_code)]

use crate::threads::next;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::AtomicUsize;

const RTLD_GLOBAL: c_int = 0x100;

/// dlopen(3) without RTLD_GLOBAL.
///
/// # Safety
/// As dlopen(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type; the rest is handed on to the caller. It opens in the
    // namespace of its caller, which is this library's.
    unsafe {
        let real: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void =
            core::mem::transmute(next(&REAL, c"dlopen"));
        real(file, flags & !RTLD_GLOBAL)
    }
}
