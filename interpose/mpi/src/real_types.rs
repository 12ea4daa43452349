//! Handles, the status, and some constants of the real library.
#![allow(unsafe_code)]

use std::ffi::c_int;

include!("generated/real_types.rs");

/// `MPI_PROC_NULL`
pub const PROC_NULL: c_int = -2;
/// `MPI_ANY_SOURCE`
pub const ANY_SOURCE: c_int = -1;
/// `MPI_ANY_TAG`
pub const ANY_TAG: c_int = -1;
/// `MPI_UNDEFINED`
pub const UNDEFINED: c_int = -32766;
