//! Accelerators of the program in a recovery.

use crate::Runtime;
use crate::{abort, user, world};
use understudy_catalogue::message;

/// Restores device memory from the program's memory, and resumes the devices.
pub fn resume_devices(rt: &Runtime) {
    if let Err(lost) = user::restore_devices(rt) {
        fail_for_lost_device(rt, &lost);
    }
}

/// Ends the job, as the memory of a device is lost.
pub fn fail_for_lost_device(rt: &Runtime, why: &dyn std::error::Error) -> ! {
    abort::abort_with_error(rt, message::DEVICE_MEMORY_LOST, why)
}

/// Releases this process's own state on devices, before the state of a worker is loaded.
///
/// Returns the reason if the state cannot be released.
pub fn release_devices(rt: &Runtime) -> Result<(), String> {
    let reports = world::is_worker() && world::is_first_worker(rt);
    match user::save_devices(rt, reports) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the driver of its accelerator is busy".into()),
        Err(error) => Err(error.to_string()),
    }
}
