//! Values that are sent as bytes.
#![allow(unsafe_code)]

use std::ffi::c_int;

/// Values that are sent in their memory representation.
///
/// # Safety
/// All bytes of a value must be initialised, and any bytes must be a valid value.
pub unsafe trait Plain: Copy + Send + 'static {}

// SAFETY: an integer has no padding, and any bytes are a valid integer.
unsafe impl Plain for u8 {}
// SAFETY: an integer has no padding, and any bytes are a valid integer.
unsafe impl Plain for c_int {}
// SAFETY: an integer has no padding, and any bytes are a valid integer.
unsafe impl Plain for u64 {}
// SAFETY: an integer has no padding, and any bytes are a valid integer.
unsafe impl Plain for i64 {}
// SAFETY: an array consists of values of `T` without padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}
