//! C strings in the structures of ld.so.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};

/// Returns the bytes of a C string.
///
/// # Safety
/// `text` must be a C string that stays valid while the result is used.
pub(crate) unsafe fn bytes(text: *const c_char) -> &'static [u8] {
    // SAFETY: the caller guarantees that `text` is a C string that stays valid while the result is
    // used.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}
