//! The functions of libc behind those of the same names in this library.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Returns the next definition of `name` (dlsym(3), RTLD_NEXT), which `place` keeps.
pub fn next(place: &AtomicUsize, name: &CStr) -> usize {
    let mut real = place.load(Ordering::Relaxed);
    if real == 0 {
        const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
        // SAFETY: dlsym(3) from this library, which stands before libc.
        real = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) } as usize;
        place.store(real, Ordering::Relaxed);
    }
    real
}
