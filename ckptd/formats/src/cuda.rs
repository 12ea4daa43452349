//! What NVIDIA's driver is asked for by name (CUDA Driver API, "CUDA Checkpointing").

use std::ffi::CStr;

/// By these it saves device memory: lock, checkpoint, restore, unlock. Versions from 570 on have
/// them.
pub const CHECKPOINT_STEPS: [&CStr; 4] = [
    c"cuCheckpointProcessLock",
    c"cuCheckpointProcessCheckpoint",
    c"cuCheckpointProcessRestore",
    c"cuCheckpointProcessUnlock",
];

/// The name of a `version` as drivers tell it: 12080 is CUDA 12.8.
pub fn version_name(version: i32) -> String {
    format!("CUDA {}.{}", version / 1000, version % 1000 / 10)
}
