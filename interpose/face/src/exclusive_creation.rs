//! Calls of libc that may create a new object, whose creation must be reported.
#![allow(unsafe_code)]

use core::ffi::c_int;
use understudy_abi::exclusive_creation::{self, Attempt};

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// Creates or opens an object; returns its number, and true if it is new.
///
/// The number is negative, and errno is set, if neither is possible. Otherwise errno is unchanged.
pub fn open_or_create(call: impl Fn(Attempt) -> c_int) -> (c_int, bool) {
    // SAFETY: `__errno_location` returns the address of this thread's errno.
    unsafe {
        let errno = __errno_location();
        let previous = errno.read();
        let result = exclusive_creation::open_or_create(|attempt| match call(attempt) {
            ..0 => Err(errno.read()),
            number => Ok(number),
        });
        match result {
            Ok(opened) => {
                errno.write(previous);
                opened
            }
            Err(_) => (-1, false),
        }
    }
}
