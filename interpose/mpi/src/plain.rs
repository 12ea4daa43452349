//! Values that are sent as bytes.
#![allow(unsafe_code)]

use std::ffi::c_int;

/// Values that are sent in their memory representation.
///
/// # Safety
/// All bytes of a value must be initialised, and any bytes must be a valid value.
pub unsafe trait Plain: Copy + Send + 'static {}

// SAFETY: a number.
unsafe impl Plain for u8 {}
// SAFETY: a number.
unsafe impl Plain for c_int {}
// SAFETY: a number.
unsafe impl Plain for u64 {}
// SAFETY: a number.
unsafe impl Plain for i64 {}
// SAFETY: values of this type, one after the other.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
