//! NVIDIA's driver in the program.
#![allow(unsafe_code)]

use crate::arch::call_user;
use crate::process_info::user_symbol;
use crate::system_calls;
use std::ffi::{CStr, c_void};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::cuda_driver::{CHECKPOINT_STEPS as STEPS, version_name};
use understudy_image::threads::with_signals_blocked;

/// Time that the driver waits for running calls, in milliseconds.
///
/// The cut is postponed after this time.
const LOCK_TIMEOUT_MS: u32 = 100;
/// Time limit of a step, which moves the memory of whole devices.
const STEP_TIMEOUT: Duration = Duration::from_secs(300);

/// Failed call of the driver (`CUresult`).
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("{call} has failed with the driver's error {code}")]
pub struct DriverError {
    pub(super) call: &'static str,
    pub(super) code: i32,
}

/// The program's libcuda: addresses of functions, zero for missing functions.
#[derive(Clone, Copy)]
pub(super) struct Driver {
    /// Record of ld.so for the library.
    pub handle: u64,
    version: u64,
    device_count: u64,
    /// Functions lock, checkpoint, restore and unlock.
    pub steps: [u64; 4],
}

/// Steps of the driver, in the order of [`Driver::steps`].
#[derive(Clone, Copy)]
pub(super) enum Step {
    Lock,
    Checkpoint,
    Restore,
    Unlock,
}

impl Driver {
    /// Looks up the functions of the library behind a `handle`.
    pub fn open(handle: u64) -> Driver {
        let dlsym = user_symbol("dlsym") as *const c_void;
        // SAFETY: dlsym(3) of the program's libc, with a record of ld.so, which is what dlopen(3)
        // returns.
        let find = |name: &CStr| unsafe { call_user(dlsym, handle, name.as_ptr() as u64, 0, 0, 0) };
        Driver {
            handle,
            version: find(c"cuDriverGetVersion"),
            device_count: find(c"cuDeviceGetCount"),
            steps: STEPS.map(find),
        }
    }

    /// Returns the `int` that a function writes, unless the function fails.
    fn number(function: u64) -> Option<i32> {
        let mut number = 0i32;
        // SAFETY: the address is that of the driver's function, which writes one `int`.
        let answer =
            |at: *mut i32| unsafe { call_user(function as *const c_void, at as u64, 0, 0, 0, 0) }
                as i32;
        (function != 0 && answer(&raw mut number) == 0).then_some(number)
    }

    /// True if the program has initialised the driver, which has found a device.
    ///
    /// Without initialisation all other calls fail (`CUDA_ERROR_NOT_INITIALIZED`).
    pub fn is_in_use(&self) -> bool {
        Self::number(self.device_count).is_some_and(|count| count > 0)
    }

    /// Returns the version for messages.
    pub fn describe(&self) -> String {
        match Self::number(self.version) {
            Some(version) => version_name(version),
            None => "of unknown version".into(),
        }
    }

    /// Performs one step for this process.
    ///
    /// # Errors
    /// Fails if the driver refuses the step.
    pub fn step(&self, step: Step) -> Result<(), DriverError> {
        // `CUcheckpointLockArgs` begins with the time limit. The structures of all steps have this
        // length, and may be zero.
        let mut arguments = [0u32; 16];
        if let Step::Lock = step {
            arguments[0] = LOCK_TIMEOUT_MS;
        }
        let function = self.steps[step as usize] as *const c_void;
        let (own, arguments) = (u64::from(std::process::id()), arguments.as_mut_ptr() as u64);
        let call = STEPS[step as usize].to_str().unwrap_or_default();
        // SAFETY: the address is that of the driver's function. Its arguments are this process's
        // number and a structure of sufficient length. The call runs on the program's stack.
        let code = watched(STEP_TIMEOUT, call, || unsafe {
            call_user(function, own, arguments, 0, 0, 0)
        }) as i32;
        if code == 0 {
            Ok(())
        } else {
            Err(DriverError { call, code })
        }
    }
}

/// Executes `call`; kills this process, which is then replaced, if `call` takes longer than
/// `limit`.
fn watched<T>(limit: Duration, name: &'static str, call: impl FnOnce() -> T) -> T {
    let (returned, returns) = mpsc::channel::<()>();
    let watch = move || {
        if returns.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            system_calls::print_message(message::driver_hangs(
                name,
                limit.as_secs(),
                std::process::id(),
            ));
            system_calls::kill_self();
        }
    };
    let thread = std::thread::Builder::new().name("understudy-driver".into());
    let watch = with_signals_blocked(|| thread.spawn(watch));
    let result = call();
    drop(returned);
    if let Ok(watch) = watch {
        let _ = watch.join();
    }
    result
}
