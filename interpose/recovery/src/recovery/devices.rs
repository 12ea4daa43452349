//! Accelerators of the program in a recovery.

use crate::Runtime;
use crate::{ending, user, world};
use understudy_catalogue::message;

/// Restores device memory from the program's memory, and resumes the devices.
pub fn devices_go_on(rt: &Runtime) {
    if let Err(lost) = user::devices_go_on(rt) {
        lose_devices(rt, &lost);
    }
}

/// Ends the job, as the memory of a device is lost.
pub fn lose_devices(rt: &Runtime, why: &dyn std::error::Error) -> ! {
    ending::fail(rt, message::DEVICE_MEMORY_LOST, why)
}

/// Releases this process's own state on devices, before it takes over from a worker.
///
/// Returns the reason if the state cannot be released.
pub fn leave_devices(rt: &Runtime) -> Result<(), String> {
    let reports = world::is_playing() && world::is_first_worker(rt);
    match user::save_devices(rt, reports) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the driver of its accelerator is busy".into()),
        Err(error) => Err(error.to_string()),
    }
}
