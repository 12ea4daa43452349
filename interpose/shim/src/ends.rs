//! Delays exits of the process that the MPI library requests.
//!
//! The MPI library may exit or abort because its process manager or another process has failed. A
//! recovery resets the MPI library to its state before MPI_Init, so such an exit must not happen. A
//! thread that calls one of these functions therefore waits for the recovery. The recovery abandons
//! the main thread in that wait and terminates other threads.
#![allow(unsafe_code)]

use crate::threads::next;
use crate::time::{now, sleep_briefly};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicUsize};

/// Time to wait for the report of a failure, in nanoseconds.
const TIMEOUT: u64 = 10_000_000_000;

/// Function that returns true while a recovery of the MPI library is pending.
///
/// None is set on the runtime side.
type IsOver = extern "C" fn() -> bool;

static IS_OVER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// From now on, exits wait for a recovery.
#[unsafe(no_mangle)]
pub extern "C" fn understudy_shim_hold_ends(is_over: IsOver) {
    IS_OVER.store(is_over as *mut c_void, Relaxed);
}

fn wait() {
    let is_over = IS_OVER.load(Relaxed);
    if is_over.is_null() {
        return;
    }
    // SAFETY: set above.
    let is_over: IsOver = unsafe { transmute(is_over) };
    let since = now();
    while is_over() || now() - since < TIMEOUT {
        sleep_briefly();
    }
}

/// Defines the functions of libc that end a process.
macro_rules! ends {
    ($($name:ident)*) => {$(
        /// libc's function of this name, called after the wait.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(status: c_int) -> ! {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            wait();
            let name = concat!(stringify!($name), "\0").as_bytes();
            // SAFETY: the name ends with a zero byte, and libc's function has this type. abort(3)
            // has no parameter and ignores the argument.
            unsafe {
                let name = core::ffi::CStr::from_bytes_with_nul_unchecked(name);
                let next: unsafe extern "C" fn(c_int) -> ! = transmute(next(&NEXT, name));
                next(status)
            }
        }
    )*};
}

ends! { exit _exit _Exit abort }
