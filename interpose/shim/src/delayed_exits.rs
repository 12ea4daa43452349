//! Delays exits of the process that the MPI library requests.
//!
//! The MPI library may exit or abort because the node manager or another process has failed. A
//! recovery resets the MPI library to its state before MPI_Init, so such an exit must not happen. A
//! thread that calls exit(3), _exit(2) or abort(3) therefore waits for the recovery. The recovery
//! abandons the main thread in that wait and terminates other threads.
#![allow(unsafe_code)]

use crate::threads::libc_function;
use crate::time::{now, sleep_briefly};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicUsize};

/// Time limit, in nanoseconds, for the report of the failure that causes an exit.
const FAILURE_REPORT_TIMEOUT_NS: u64 = 10_000_000_000;

/// Function that returns true while a recovery of the MPI library is pending.
///
/// The shim of the runtime side receives no such function, and does not delay exits.
type IsRecoveryPending = extern "C" fn() -> bool;

static IS_RECOVERY_PENDING: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Makes exits wait for a recovery from now on.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_hold_ends(is_pending: IsRecoveryPending) {
    IS_RECOVERY_PENDING.store(is_pending as *mut c_void, Relaxed);
}

/// Blocks until no recovery is pending, and at least for [`FAILURE_REPORT_TIMEOUT_NS`].
///
/// A recovery normally ends the wait from outside, so a return means that no failure was reported.
fn wait_for_recovery() {
    let is_pending = IS_RECOVERY_PENDING.load(Relaxed);
    if is_pending.is_null() {
        return;
    }
    // SAFETY: a function of this type, stored by `understudy_shim_hold_ends`.
    let is_pending: IsRecoveryPending = unsafe { transmute(is_pending) };
    let start = now();
    while is_pending() || now() - start < FAILURE_REPORT_TIMEOUT_NS {
        sleep_briefly();
    }
}

/// Defines the functions of libc that end a process.
macro_rules! delayed_exits {
    ($($name:ident)*) => {$(
        /// Waits for a recovery, then calls libc's function of this name.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(status: c_int) -> ! {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            wait_for_recovery();
            let name = concat!(stringify!($name), "\0").as_bytes();
            // SAFETY: the name ends with a zero byte, and libc's function has this type. abort(3)
            // has no parameter and ignores the argument.
            unsafe {
                let name = core::ffi::CStr::from_bytes_with_nul_unchecked(name);
                let next: unsafe extern "C" fn(c_int) -> ! = transmute(libc_function(&NEXT, name));
                next(status)
            }
        }
    )*};
}

delayed_exits! { exit _exit _Exit abort }
