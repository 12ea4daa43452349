//! The program's end by _exit(2), which the runtime must hear of, too.
#![allow(unsafe_code)]

use crate::sys::{self, nr, sys};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// The process that it is for: children inherit what is registered.
static PROCESS: AtomicIsize = AtomicIsize::new(0);

/// From now on `hook` is called with the status.
pub fn listen(hook: unsafe extern "C" fn(c_int)) {
    // SAFETY: getpid(2).
    PROCESS.store(unsafe { sys!(nr::GETPID) }, Ordering::Relaxed);
    HOOK.store(hook as *mut c_void, Ordering::Release);
}

/// Whether the end of this process is to be told.
pub fn is_for_this_process() -> bool {
    // SAFETY: getpid(2).
    unsafe { sys!(nr::GETPID) == PROCESS.load(Ordering::Relaxed) }
}

/// Tells the runtime, which may be at work for another thread.
pub fn at_once(status: c_int) {
    let hook = HOOK.load(Ordering::Acquire);
    if !hook.is_null() && is_for_this_process() {
        // SAFETY: set by `listen`.
        unsafe {
            let hook: unsafe extern "C" fn(c_int) = core::mem::transmute(hook);
            hook(status);
        }
    }
}

/// libc's functions of these names: the end at once, also from inside of a signal handler.
macro_rules! ends {
    ($($name:ident)*) => {$(
        /// libc's function of this name.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(status: c_int) -> ! {
            at_once(status);
            sys::exit(status)
        }
    )*};
}

ends! { _exit _Exit }
