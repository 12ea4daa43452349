//! dlopen(3) without RTLD_GLOBAL.
//!
//! A namespace of dlmopen(3) has no global scope: with RTLD_GLOBAL, ld.so crashes (glibc bug
//! 18684). Open MPI opens its components with this flag. The flag can be removed, because the
//! components name the libraries that they need (DT_NEEDED).
#![allow(unsafe_code)]

use crate::threads::libc_function;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::AtomicUsize;

const RTLD_GLOBAL: c_int = 0x100;

/// dlopen(3) without RTLD_GLOBAL.
///
/// # Safety
/// The requirements of dlopen(3) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: libc's function has this type; the caller meets the requirements of dlopen(3). The
    // function opens the library in the namespace of its caller, which is the shim's.
    unsafe {
        let real: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void =
            core::mem::transmute(libc_function(&REAL, c"dlopen"));
        real(file, flags & !RTLD_GLOBAL)
    }
}
