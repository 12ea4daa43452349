//! Kernel AIO of the program through syscall(2), as in libaio since version 0.3.112.
//!
//! Requests are counted ([`understudy_abi::kernel_aio`]), and the parts of files that they
//! overwrite are reported to the runtime.
#![allow(unsafe_code)]

use crate::kernel_use::KERNEL_USE;
use crate::libc::next;
use crate::overwrites::{Buffer, report_vector};
use crate::{stop, threads};
use core::ffi::{c_int, c_long, c_uint, c_void};
use core::sync::atomic::AtomicPtr;
use understudy_abi::kernel_aio::{AioContext, AioRequest};

pub const IO_SETUP: usize = 206;
pub const IO_DESTROY: usize = 207;
pub const IO_SUBMIT: usize = 209;

/// Returns libc's syscall(2) for calls with up to three arguments.
fn real_call() -> unsafe extern "C" fn(usize, usize, usize, usize) -> c_long {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function takes its arguments in registers, so it can be called with four.
    unsafe { core::mem::transmute(next(&REAL, c"syscall")) }
}

/// Calls `call` while the calling thread cannot be stopped.
///
/// A cut stops the threads of the program, so it is taken before or after both the call and its
/// record, not between them.
fn without_stops(call: impl FnOnce() -> c_long) -> c_long {
    let is_blocked = threads::block_stops();
    let result = call();
    if is_blocked {
        stop::unblock();
    }
    result
}

/// io_setup(2).
///
/// # Safety
/// The requirements of syscall(2) apply.
pub unsafe extern "C" fn io_setup(requests: c_uint, context: *mut usize) -> c_long {
    without_stops(|| {
        // SAFETY: the caller meets the requirements of the system call; the kernel has written the
        // identifier.
        unsafe {
            let result = real_call()(IO_SETUP, requests as usize, context as usize, 0);
            if result == 0 {
                KERNEL_USE.contexts.insert(AioContext {
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
/// The requirements of syscall(2) apply.
pub unsafe extern "C" fn io_destroy(context: usize) -> c_long {
    without_stops(|| {
        // The record is removed before the call: as soon as the context is destroyed, a context of
        // another thread may receive its address.
        KERNEL_USE.contexts.remove(context);
        // SAFETY: the caller meets the requirements of the system call.
        unsafe { real_call()(IO_DESTROY, context, 0, 0) }
    })
}

/// io_submit(2).
///
/// # Safety
/// The requirements of syscall(2) apply.
pub unsafe extern "C" fn io_submit(
    context: usize,
    count: c_long,
    requests: *const *const AioRequest,
) -> c_long {
    let is_known = KERNEL_USE.contexts.find(context).is_some() && !requests.is_null();
    let reported = if is_known { count } else { 0 };
    let mut is_blocked = threads::block_stops();
    // SAFETY: the caller meets the requirements of the system call.
    unsafe {
        for index in 0..usize::try_from(reported).unwrap_or(0) {
            is_blocked |= report_request(requests.add(index).read());
        }
        let result = real_call()(IO_SUBMIT, context, count as usize, requests as usize);
        let submitted = u64::try_from(result).unwrap_or(0);
        KERNEL_USE.contexts.submit(context, submitted);
        if is_blocked {
            stop::unblock();
        }
        result
    }
}

/// Reports the part of a file that a request overwrites.
///
/// Returns true if stops of the calling thread are blocked.
///
/// # Safety
/// `request` must be a request that is about to be submitted, or null.
unsafe fn report_request(request: *const AioRequest) -> bool {
    const WRITE: u16 = 1;
    const WRITE_VECTOR: u16 = 8;
    // SAFETY: the caller guarantees that `request` is null or a valid request.
    let Some(request) = (unsafe { request.as_ref() }) else {
        return false;
    };
    let whole = Buffer {
        start: request.buffer as *const c_void,
        length: request.length as usize,
    };
    let (buffers, count) = match request.operation {
        WRITE => (&raw const whole, 1),
        WRITE_VECTOR => (request.buffer as *const Buffer, request.length as c_int),
        _ => return false,
    };
    // SAFETY: the buffers belong to the request.
    unsafe {
        report_vector(
            request.fd,
            buffers,
            count,
            request.offset.max(0),
            request.flags,
        )
    }
}
