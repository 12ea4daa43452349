//! libc's definitions of functions that this library redefines.
#![allow(unsafe_code)]

use crate::messages::{Text, print};
use crate::sys;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_catalogue::message;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Returns the next definition of `name`, which is looked up once.
///
/// The function is neither inlined nor a tail call of dlsym(3), because RTLD_NEXT depends on the
/// caller's address.
#[inline(never)]
pub fn next(real: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
    let known = real.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: dlsym(3) with a terminated string.
    let found = core::hint::black_box(unsafe { dlsym(RTLD_NEXT, name.as_ptr()) });
    if found.is_null() {
        print(&message::missing_libc_function(Text(name.to_bytes())));
        sys::exit(127);
    }
    real.store(found, Ordering::Relaxed);
    found
}

/// Expands to the next definition of a function, as a pointer of a type.
///
/// The expansion is unsafe, because the type must be that of libc's function.
macro_rules! next_function {
    ($name:expr, $type:ty) => {{
        static REAL: core::sync::atomic::AtomicPtr<core::ffi::c_void> =
            core::sync::atomic::AtomicPtr::new(core::ptr::null_mut());
        core::mem::transmute::<*mut core::ffi::c_void, $type>($crate::libc::next(&REAL, $name))
    }};
}
pub(crate) use next_function;

/// Returns a string that ends with a NUL as a C string.
pub const fn c_name(name: &str) -> &CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!(),
    }
}

/// Returns libc's dlopen(3).
pub extern "C" fn real_open() -> *mut c_void {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    next(&REAL, c"dlopen")
}

/// Returns libc's dlclose(3).
pub fn real_close() -> unsafe extern "C" fn(*mut c_void) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function has this type.
    unsafe { core::mem::transmute(next(&REAL, c"dlclose")) }
}
