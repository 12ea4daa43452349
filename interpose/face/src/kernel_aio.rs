//! Kernel AIO of the program through syscall(2), as in libaio since version 0.3.112.
//!
//! Requests are counted ([`understudy_abi::kernel_aio`]), and the parts of files that they
//! overwrite are reported to the runtime.
#![allow(unsafe_code)]

use crate::kernel_use::KERNEL_USE;
use crate::libc::next;
use crate::overwrites::{Buffer, before_parts};
use crate::{stop, threads};
use core::ffi::{c_int, c_long, c_uint, c_void};
use core::sync::atomic::AtomicPtr;
use understudy_abi::kernel_aio::{Context, Request};

pub const IO_SETUP: usize = 206;
pub const IO_DESTROY: usize = 207;
pub const IO_SUBMIT: usize = 209;

/// Returns libc's syscall(2) for calls with up to three arguments.
fn real_call() -> unsafe extern "C" fn(usize, usize, usize, usize) -> c_long {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function takes its arguments in registers.
    unsafe { core::mem::transmute(next(&REAL, c"syscall")) }
}

/// Calls `call` while the calling thread cannot be stopped.
///
/// The call and its record are then on one side of a cut.
fn uninterrupted(call: impl FnOnce() -> c_long) -> c_long {
    let is_held = threads::hold();
    let result = call();
    if is_held {
        stop::unblock();
    }
    result
}

/// io_setup(2).
///
/// # Safety
/// As syscall(2).
pub unsafe extern "C" fn io_setup(requests: c_uint, context: *mut usize) -> c_long {
    uninterrupted(|| {
        // SAFETY: guaranteed by the caller; the kernel has written the identifier.
        unsafe {
            let result = real_call()(IO_SETUP, requests as usize, context as usize, 0);
            if result == 0 {
                KERNEL_USE.contexts.insert(Context {
                    address: context.read_unaligned(),
                    requests,
                    submitted: 0,
                });
            }
            result
        }
    })
}

/// io_destroy(2).
///
/// # Safety
/// As syscall(2).
pub unsafe extern "C" fn io_destroy(context: usize) -> c_long {
    uninterrupted(|| {
        // Another thread may get this address as soon as the context is destroyed.
        KERNEL_USE.contexts.remove(context);
        // SAFETY: guaranteed by the caller.
        unsafe { real_call()(IO_DESTROY, context, 0, 0) }
    })
}

/// io_submit(2).
///
/// # Safety
/// As syscall(2).
pub unsafe extern "C" fn io_submit(
    context: usize,
    count: c_long,
    requests: *const *const Request,
) -> c_long {
    let is_known = KERNEL_USE.contexts.find(context).is_some() && !requests.is_null();
    let noted = if is_known { count } else { 0 };
    let mut is_held = threads::hold();
    // SAFETY: guaranteed by the caller.
    unsafe {
        for index in 0..usize::try_from(noted).unwrap_or(0) {
            is_held |= before(requests.add(index).read());
        }
        let result = real_call()(IO_SUBMIT, context, count as usize, requests as usize);
        let submitted = u64::try_from(result).unwrap_or(0);
        KERNEL_USE.contexts.submit(context, submitted);
        if is_held {
            stop::unblock();
        }
        result
    }
}

/// Reports the part that a request overwrites; returns true if the calling thread is blocked.
///
/// # Safety
/// `request` must be a request that is about to be submitted, or null.
unsafe fn before(request: *const Request) -> bool {
    const WRITE: u16 = 1;
    const WRITE_PARTS: u16 = 8;
    // SAFETY: guaranteed by the caller.
    let Some(request) = (unsafe { request.as_ref() }) else {
        return false;
    };
    let whole = Buffer {
        start: request.buffer as *const c_void,
        length: request.length as usize,
    };
    let (parts, count) = match request.operation {
        WRITE => (&raw const whole, 1),
        WRITE_PARTS => (request.buffer as *const Buffer, request.length as c_int),
        _ => return false,
    };
    // SAFETY: the parts belong to the request.
    unsafe {
        before_parts(
            request.fd,
            parts,
            count,
            request.offset.max(0),
            request.flags,
        )
    }
}
