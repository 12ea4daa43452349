//! Handles, the status, and some constants of the real library.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

include!("generated/real_types.rs");

/// Root of a collective of an intercommunicator, in the root itself.
pub const ROOT: c_int = -4;
/// Address that stands for the other buffer of a collective.
pub const IN_PLACE: *const c_void = std::ptr::without_provenance(1);
pub const PROC_NULL: c_int = -2;
pub const ANY_SOURCE: c_int = -1;
pub const ANY_TAG: c_int = -1;
pub const UNDEFINED: c_int = -32766;
