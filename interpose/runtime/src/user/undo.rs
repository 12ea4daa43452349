//! Files and names as they were at a cut.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

/// What [`crate::arch::file_effect`] calls.
///
/// # Safety
/// The strings must be valid or null.
pub unsafe extern "C" fn file_effect(
    _kind: u32,
    _directory: c_int,
    _path: *const c_char,
    _other_directory: c_int,
    _other: *const c_char,
    _value: i64,
) {
}
