//! Start-up data of the shim.

use crate::layers::LayersDescriptors;
use core::ffi::{c_char, c_int};

/// Start-up data of the shim in its namespace.
#[repr(C)]
pub struct ShimStart {
    /// Null-terminated array of `NAME=value` that lives as long as the process.
    pub environment: *const *const c_char,
    /// Lowest number of the namespace's descriptors; new ones are moved to it or above.
    pub first_descriptor: c_int,
    /// Lowest pthread key that the namespace uses.
    pub first_key: u32,
    /// Descriptor that replaces 1: output of the MPI library does not pass through the relay.
    ///
    /// 1 in the runtime's namespace.
    pub output: c_int,
    /// Descriptor that replaces 2, for the reason given at [`output`](Self::output).
    pub errors: c_int,
    /// Set to which the namespace adds its descriptors.
    pub layers: *const LayersDescriptors,
}
