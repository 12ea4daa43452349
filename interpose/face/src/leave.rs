//! The program's end by exit(3), which the runtime must hear of: a rank that leaves without MPI_Finalize looks like a dead
//! one to the others, and the spares would wait for ever.
#![allow(unsafe_code)]

use crate::boot::on_stack;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use understudy_abi::{RUNTIME_STACK, RUNTIME_STACK_SIZE};

/// The runtime's function. It is not part of the program's image, but the address of [`leaving`] is, and is the same in
/// every rank.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

unsafe extern "C" {
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Registers `hook` to be called with the exit status; once.
///
/// # Safety
/// To be called on the program's stack: it registers with the program's libc (on_exit(3)).
pub unsafe extern "C" fn call_at_exit(hook: unsafe extern "C" fn(c_int)) {
    if HOOK.swap(hook as *mut c_void, Ordering::Release).is_null() {
        // SAFETY: on_exit(3).
        unsafe { on_exit(leaving, core::ptr::null_mut()) };
    }
}

unsafe extern "C" fn leaving(status: c_int, _: *mut c_void) {
    let argument = status as usize as *mut c_void;
    // SAFETY: nothing of the runtime is under way on its stack, or if (exit called in a callback) it never goes on.
    unsafe { on_stack(argument, on_zone_stack, RUNTIME_STACK + RUNTIME_STACK_SIZE) };
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
