//! Functions and versions of NVIDIA's driver (CUDA Driver API, "CUDA Checkpointing").

use std::ffi::CStr;

/// Functions that save and restore device memory, in the order of their calls.
///
/// Available from driver version 570 on.
pub const CHECKPOINT_STEPS: [&CStr; 4] = [
    c"cuCheckpointProcessLock",
    c"cuCheckpointProcessCheckpoint",
    c"cuCheckpointProcessRestore",
    c"cuCheckpointProcessUnlock",
];

/// Formats a driver's version number: 12080 is CUDA 12.8.
pub fn version_name(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}
