//! Accelerators: memory of devices, which images do not contain.
//!
//! The memory of a device, and the kernel's state for it, belong to the process that has opened the
//! device. Neither rolls back with the program's memory, and neither can be moved to another
//! process together with this memory. From version 570 on NVIDIA's driver can move this state to
//! ordinary memory of the process and release its devices (CUDA Driver API, "CUDA Checkpointing").
//! Other drivers have no such function.
//!
//! ```text
//!   cut        lock, checkpoint ── before threads stop, as the driver's threads may take part
//!              bookmark exchange, capture
//!              restore, unlock ── after threads have resumed
//!   recovery   a process that may have a device open exits and is replaced
//!              lock, checkpoint ── in a replacement that has opened a device before MPI_Init
//!              load
//!              restore, unlock ── after threads have resumed
//! ```
//!
//! Images are therefore only loaded while no device is open, and each process continues with the
//! state that the driver itself has restored.

pub(super) mod device_state;
pub(super) mod driver;

use super::{UserError, files, loader, threads, zones};
use crate::arch::mpi_lock;
use crate::user::program_runtime::Runtime;
use crate::{process_info, system_calls};
pub use driver::DriverError;
use driver::{Driver, Step};
use understudy_catalogue::message;
use understudy_formats::cuda_driver::CHECKPOINT_STEPS as STEPS;
use understudy_image::vmas::{self, Owner};
use understudy_settings::StaticData;

/// Value of `cuda.h`.
const CUDA_ERROR_NOT_READY: i32 = 600;

/// Error: ld.so is locked, so the program's libraries cannot be listed.
struct LoaderLocked;

/// Returns the program's driver, if the program has loaded one.
fn driver(rt: &Runtime) -> Result<Option<Driver>, LoaderLocked> {
    let mark = loader::mark(&rt.loader);
    if rt.accelerator.absent_at.get() == Some(mark) {
        return Ok(None);
    }
    if threads::has_threads(rt) && loader::is_locked() {
        return Err(LoaderLocked);
    }
    let libraries = loader::libraries();
    let Some(library) = libraries
        .iter()
        .find(|library| is_driver(library.path.as_bytes()))
    else {
        rt.accelerator.absent_at.set(Some(mark));
        return Ok(None);
    };
    let known = rt.accelerator.driver.get();
    let driver = known.filter(|known| known.handle == library.handle);
    let driver = driver.unwrap_or_else(|| Driver::open(library.handle));
    rt.accelerator.driver.set(Some(driver));
    Ok(Some(driver))
}

fn is_driver(path: &[u8]) -> bool {
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    file.starts_with(b"libcuda.so")
}

/// Devices and driver that the program uses.
struct AcceleratorUse {
    devices: Vec<String>,
    driver: Option<Driver>,
}

fn in_use(rt: &Runtime) -> Result<Option<AcceleratorUse>, LoaderLocked> {
    let (devices, driver) = (files::accelerators(), driver(rt)?);
    let is_any = !devices.is_empty() || driver.is_some_and(|driver| driver.is_in_use());
    Ok(is_any.then_some(AcceleratorUse { devices, driver }))
}

impl AcceleratorUse {
    fn first_name(&self) -> String {
        self.devices
            .first()
            .cloned()
            .unwrap_or_else(|| "libcuda".into())
    }

    fn refused(&self, why: impl Into<String>) -> UserError {
        UserError::Accelerator {
            device: self.first_name(),
            why: why.into(),
        }
    }

    /// Returns the driver if it can save the device memory.
    fn checkpointing_driver(&self) -> Result<Driver, UserError> {
        let is_not_nvidia = |path: &String| !path.starts_with("/dev/nvidia");
        let has_other_device = self.devices.iter().any(is_not_nvidia);
        let Some(driver) = self.driver.filter(|_| !has_other_device) else {
            return Err(self.refused("only NVIDIA's driver, from version 570 on, can save it"));
        };
        if let Some(missing) = driver.steps.iter().position(|&function| function == 0) {
            return Err(self.refused(format!(
                "the driver ({}) has no {}; version 570 and later have, so update the driver",
                driver.describe(),
                STEPS[missing].to_string_lossy()
            )));
        }
        if process_info::config().static_data != StaticData::Image {
            return Err(self.refused(
                "replicas without static data end with their process; remove UNDERSTUDY_STATIC",
            ));
        }
        Ok(driver)
    }
}

/// Moves device memory to the program's memory and releases the devices, while threads run.
///
/// Returns false if the devices cannot be released now; the cut is then postponed. `reports` is
/// true if this process prints, once, that a device is in use.
///
/// # Errors
/// Fails if device memory cannot be saved, or cannot be restored after an attempt to save it.
pub fn save_devices(rt: &Runtime, reports: bool) -> Result<bool, UserError> {
    let Ok(found) = in_use(rt) else {
        return Ok(false);
    };
    let Some(found) = found else { return Ok(true) };
    let driver = found.checkpointing_driver()?;
    // In a replacement the main thread performs the recovery, so the main thread would have to
    // continue in the place of the thread that has saved the devices.
    if mpi_lock::is_other_thread() {
        return Ok(false);
    }
    match driver.step(Step::Lock) {
        Err(DriverError {
            code: CUDA_ERROR_NOT_READY,
            ..
        }) => return Ok(false),
        locked => locked.map_err(|error| found.refused(error.to_string()))?,
    }
    if let Err(error) = driver.step(Step::Checkpoint) {
        driver.step(Step::Unlock).map_err(UserError::DeviceLost)?;
        return Err(found.refused(error.to_string()));
    }
    rt.accelerator.is_checkpointed.set(true);
    if let Some(kept) = remaining_device(rt)? {
        restore_devices(rt)?;
        return Err(found.refused(format!(
            "the program or its driver keeps {kept} open, which another process would not have"
        )));
    }
    report_use(rt, &found, driver, reports);
    Ok(true)
}

/// Returns the name of a device or kernel object that is still open or mapped.
///
/// A device would be missing in another process, although its memory was saved. Kernel objects are
/// pipes, sockets and event counters, for example those of the driver.
fn remaining_device(rt: &Runtime) -> Result<Option<String>, UserError> {
    let open = files::accelerators()
        .into_iter()
        .next()
        .or_else(|| files::first_unrestorable(rt));
    let mapped =
        || vmas::read_self().map(|all| all.into_iter().find(|vma| files::is_device(&vma.path)));
    Ok(match open {
        Some(open) => Some(open),
        None => mapped()?
            .filter(|vma| zones().owner_at(vma, vma.range.start) == Owner::Device)
            .map(|vma| String::from_utf8_lossy(&vma.path).into_owned()),
    })
}

fn report_use(rt: &Runtime, found: &AcceleratorUse, driver: Driver, reports: bool) {
    if !rt.accelerator.is_reported.replace(true) && reports {
        system_calls::print_message(message::accelerator_in_checkpoints(
            found.first_name(),
            driver.describe(),
        ));
    }
}

/// True while device memory is in the program's memory, until [`restore_devices`] restores it.
pub(super) fn is_saved(rt: &Runtime) -> bool {
    rt.accelerator.is_checkpointed.get()
}

/// Records whether device memory is in the memory that was loaded.
pub(super) fn restore(rt: &Runtime, is_saved: bool) {
    rt.accelerator.is_checkpointed.set(is_saved);
    // The load has changed the libraries, and the current [`loader::LoaderMark`] may equal one from
    // before the load. So the cached results are discarded.
    rt.accelerator.absent_at.set(None);
    rt.accelerator.driver.set(None);
}

/// Restores device memory after the threads have resumed.
pub fn restore_devices(rt: &Runtime) -> Result<(), UserError> {
    if !rt.accelerator.is_checkpointed.take() {
        return Ok(());
    }
    // Libraries may have been reopened since the device memory was saved.
    let Ok(Some(driver)) = driver(rt) else {
        return Err(UserError::DeviceLost(DriverError {
            call: "looking for libcuda",
            code: -1,
        }));
    };
    let restored = driver
        .step(Step::Restore)
        .and_then(|()| driver.step(Step::Unlock));
    restored.map_err(UserError::DeviceLost)
}

/// True if the program may have a device open, or be about to open one.
///
/// Callable at any point of the program, because the driver is not called.
pub fn may_use_devices() -> bool {
    let is_loaded = || {
        let all = vmas::read_self().unwrap_or_default();
        let mut drivers = all.iter().filter(|vma| is_driver(&vma.path));
        drivers.any(|vma| zones().owner_at(vma, vma.range.start) == Owner::User)
    };
    !files::accelerators().is_empty() || is_loaded()
}

#[cfg(test)]
mod tests {
    use super::super::files::is_device;
    use super::is_driver;

    #[test]
    fn devices_and_drivers_are_identified_by_name() {
        for path in [
            "/dev/nvidia0",
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/kfd",
            "/dev/dri/renderD128",
        ] {
            assert!(is_device(path.as_bytes()), "{path}");
        }
        for path in [
            "/dev/null",
            "/dev/dri/card0",
            "/dev/shm/nvidia0",
            "/home/dev/nvidia0",
            "",
        ] {
            assert!(!is_device(path.as_bytes()), "{path}");
        }
        assert!(
            is_driver(b"/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15")
                && is_driver(b"libcuda.so.1")
        );
        assert!(!is_driver(b"/usr/lib/libcudart.so.12") && !is_driver(b""));
    }
}
