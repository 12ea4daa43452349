//! The MPI library does not end its process as long as it may be taken out of there.
//!
//! It may give up since the process manager that serves it has died, or since another process has.
//! In the next generation it is as before MPI_Init: whoever ends the process here waits for that.
//! The main thread is abandoned in that wait, others are ended.
#![allow(unsafe_code)]

use crate::threads::next;
use crate::time::{now, sleep_briefly};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicUsize};

/// How long nothing may be heard of another generation, in nanoseconds.
const TIMEOUT: u64 = 10_000_000_000;

/// Tells whether there is another generation; none in the namespace of the runtime.
type IsOver = extern "C" fn() -> bool;

static IS_OVER: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// From now on ends wait for another generation.
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

/// libc's functions that end a process, of these names.
macro_rules! ends {
    ($($name:ident)*) => {$(
        /// libc's function of this name, when there is nothing to wait for.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(status: c_int) -> ! {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            wait();
            let name = concat!(stringify!($name), "\0").as_bytes();
            // SAFETY: a string that ends with a zero, and libc's function of this type (abort(3)
            // takes nothing, and does not see what it gets).
            unsafe {
                let name = core::ffi::CStr::from_bytes_with_nul_unchecked(name);
                let next: unsafe extern "C" fn(c_int) -> ! = transmute(next(&NEXT, name));
                next(status)
            }
        }
    )*};
}

ends! { exit _exit _Exit abort }
