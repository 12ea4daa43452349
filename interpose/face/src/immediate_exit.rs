//! Exit of the program by _exit(2), reported to the runtime like exit(3).
#![allow(unsafe_code)]

use crate::sys::{self, nr, sys};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};

/// The runtime's function for _exit(2), or null in an unprotected process.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// Process for which the function is registered; its child processes inherit this variable.
static PROCESS: AtomicIsize = AtomicIsize::new(0);

/// Makes _exit(2) call `hook` with the status from now on.
pub fn connect(hook: unsafe extern "C" fn(c_int)) {
    // SAFETY: getpid(2) has no preconditions.
    PROCESS.store(unsafe { sys!(nr::GETPID) }, Ordering::Relaxed);
    HOOK.store(hook as *mut c_void, Ordering::Release);
}

/// Returns true if the exit of this process must be reported.
pub fn is_for_this_process() -> bool {
    // SAFETY: getpid(2) has no preconditions.
    unsafe { sys!(nr::GETPID) == PROCESS.load(Ordering::Relaxed) }
}

/// Reports the exit to the runtime, which may be active in another thread.
pub fn report_exit(status: c_int) {
    let hook = HOOK.load(Ordering::Acquire);
    if !hook.is_null() && is_for_this_process() {
        // SAFETY: a function of this type, stored by `connect`.
        unsafe {
            let hook: unsafe extern "C" fn(c_int) = core::mem::transmute(hook);
            hook(status);
        }
    }
}

/// Defines libc's functions that exit at once; they may be called in a signal handler.
macro_rules! immediate_exits {
    ($($name:ident)*) => {$(
        /// libc's function of this name.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(status: c_int) -> ! {
            report_exit(status);
            sys::exit(status)
        }
    )*};
}

immediate_exits! { _exit _Exit }
