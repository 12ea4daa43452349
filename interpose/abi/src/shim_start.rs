//! Start-up data of the shim.

use crate::reserved_descriptors::ReservedDescriptors;
use core::ffi::{c_char, c_int};

/// Start-up data of the shim in its namespace.
#[repr(C)]
pub struct ShimStart {
    /// Null-terminated array of `NAME=value` that lives as long as the process.
    pub environment: *const *const c_char,
    /// Lowest number of the namespace's descriptors.
    ///
    /// The shim moves a new descriptor with a lower number to a number from this one on.
    pub first_descriptor: c_int,
    /// Lowest pthread key that the namespace uses.
    pub first_key: u32,
    /// Descriptor that replaces 1, so that output of the MPI library bypasses the relay.
    ///
    /// The value is 1 in the runtime's namespace.
    pub output: c_int,
    /// Descriptor that replaces 2, like [`output`](Self::output).
    pub errors: c_int,
    /// Set to which the namespace adds its descriptors.
    pub reserved_descriptors: *const ReservedDescriptors,
}
