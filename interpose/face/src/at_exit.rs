//! The program's end by exit(3), which the runtime must hear of: a rank that leaves without MPI_Finalize is missed by the
//! others, and the launcher does not tell them.
#![allow(unsafe_code)]

use crate::stack::on_stack;
use crate::{leave, turns};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::{RUNTIME_STACK, RUNTIME_STACK_SIZE};

/// The runtime's function. It is not part of the program's image, but the address of [`leaving`] is, and is the same in
/// every rank.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Registers `hook` to be called with the status of exit(3), and `at_once` for _exit(2); once.
///
/// # Safety
/// To be called on the program's stack: it registers with the program's libc (on_exit(3)).
pub unsafe extern "C" fn call_at_exit(hook: unsafe extern "C" fn(c_int), at_once: unsafe extern "C" fn(c_int)) {
    leave::listen(at_once);
    if HOOK.swap(hook as *mut c_void, Ordering::Release).is_null() {
        // SAFETY: on_exit(3).
        unsafe { on_exit(leaving, core::ptr::null_mut()) };
    }
}

unsafe extern "C" fn leaving(status: c_int, _: *mut c_void) {
    if !leave::is_for_this_process() {
        return;
    }
    let argument = status as usize as *mut c_void;
    // SAFETY: nothing of the runtime is under way on its stack, or if (exit called in a callback) it never goes on.
    let run = || unsafe { on_stack(argument, on_zone_stack, RUNTIME_STACK + RUNTIME_STACK_SIZE) };
    if !turns::at_the_end(run) {
        leave::at_once(status);
    }
}

unsafe extern "C" fn on_zone_stack(argument: *mut c_void) {
    let hook = HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: set by `call_at_exit`.
        unsafe {
            let hook: unsafe extern "C" fn(c_int) = core::mem::transmute(hook);
            hook(argument as usize as c_int);
        }
    }
}
