//! Functions of libc that the runtime calls in the program's namespace.
//!
//! The functions select the namespace by the caller's address. Calls must therefore come from this
//! library, and must not be tail calls.
#![allow(unsafe_code)]

use crate::libc;
use core::ffi::{c_char, c_int, c_void};

mod real {
    use core::ffi::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
        pub fn dl_iterate_phdr(callback: *const c_void, data: *mut c_void) -> c_int;
    }
}

/// dlopen(3) in the program's namespace.
///
/// # Safety
/// The requirements of libc's function apply.
pub unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: the caller meets the requirements of dlopen(3), which searches the program's
    // namespace because the call comes from this library.
    let handle = unsafe {
        let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void =
            core::mem::transmute(libc::real_open());
        open(path, flags)
    };
    core::hint::black_box(handle)
}

/// dlclose(3) of the program's libc.
///
/// # Safety
/// The requirements of libc's function apply.
pub unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    // SAFETY: the caller meets the requirements of dlclose(3).
    let result = unsafe { libc::real_close()(handle) };
    core::hint::black_box(result)
}

/// dlsym(3) with RTLD_DEFAULT in the program's namespace.
///
/// # Safety
/// The requirements of libc's function apply.
pub unsafe extern "C" fn dlsym(name: *const c_char) -> *mut c_void {
    // SAFETY: the caller meets the requirements of dlsym(3). The call is not a tail call, which
    // would search the caller's namespace.
    let address = unsafe { real::dlsym(core::ptr::null_mut(), name) };
    core::hint::black_box(address)
}

/// Values of predefined attributes, which programs read through pointers.
///
/// The pointers must be valid in a replacement, too.
pub static mut ATTRIBUTE_CELLS: [c_int; 16] = [0; 16];

/// dl_iterate_phdr(3) over the program's namespace.
///
/// # Safety
/// The requirements of libc's function apply.
pub unsafe extern "C" fn iterate(callback: *const c_void, data: *mut c_void) -> c_int {
    // SAFETY: the caller meets the requirements of dl_iterate_phdr(3), which iterates over the
    // program's namespace because the call comes from this library.
    let result = unsafe { real::dl_iterate_phdr(callback, data) };
    core::hint::black_box(result)
}
