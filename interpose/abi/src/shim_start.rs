//! Start-up data of the shim.

use crate::layers::LayersDescriptors;
use core::ffi::{c_char, c_int};

/// Start-up data of the shim in its namespace.
#[repr(C)]
pub struct ShimStart {
    /// Null-terminated array of `NAME=value` that lives as long as the process.
    pub environment: *const *const c_char,
    /// New descriptors are moved to this number or above.
    pub first_descriptor: c_int,
    /// pthread keys below this one are not used.
    pub first_key: u32,
    /// Descriptor in place of 1: output of the MPI library does not pass through the relay.
    ///
    /// 1 in the runtime's namespace.
    pub output: c_int,
    /// Descriptor in place of 2, likewise.
    pub errors: c_int,
    /// Set to which the namespace adds its descriptors.
    pub layers: *const LayersDescriptors,
}
