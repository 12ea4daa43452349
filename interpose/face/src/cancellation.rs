//! `pthread_cancel`(3) of the program.
//!
//! pthread_cancel(3) may install libc's handler of SIGCANCEL. The runtime must then install its own
//! handler again.
#![allow(unsafe_code)]

use crate::libc::next;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// The runtime's function, or null in an unprotected process.
///
/// See [`understudy_abi::EntryPoints::after_cancellation`].
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Makes each cancellation call the runtime's function afterwards.
pub fn connect(hook: *const c_void) {
    HOOK.store(hook.cast_mut(), Ordering::Release);
}

/// pthread_cancel(3).
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: usize) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function and the runtime's have these types, and the caller meets the
    // requirements of libc's function.
    unsafe {
        let real: unsafe extern "C" fn(usize) -> c_int =
            core::mem::transmute(next(&REAL, c"pthread_cancel"));
        let result = real(thread);
        let hook = HOOK.load(Ordering::Acquire);
        if !hook.is_null() {
            core::mem::transmute::<*mut c_void, extern "C" fn()>(hook)();
        }
        result
    }
}
