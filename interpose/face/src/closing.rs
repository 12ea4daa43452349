//! Keeps descriptors of the runtime and MPI sides open when the program closes all descriptors.
//!
//! A program may close all descriptors in a loop of close(2), or with close_range(2). Only the
//! rank's own process is restricted: a forked child does not use the runtime, and may close any
//! descriptor.
#![allow(unsafe_code)]

use crate::libc::next;
use crate::overwrites;
use crate::sys::{nr, sys};
use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicIsize, AtomicPtr, Ordering};
use understudy_abi::RUNTIME_FD_BASE;
use understudy_abi::reserved_descriptors::ReservedDescriptors;

/// Descriptors of the runtime and MPI sides.
pub static RESERVED_DESCRIPTORS: ReservedDescriptors = ReservedDescriptors::new();
/// Process that owns the reserved descriptors; 0 in an unprotected process.
static PROCESS: AtomicIsize = AtomicIsize::new(0);

const EBADF: c_int = 9;

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
}

/// Keeps the reserved descriptors open from now on.
pub fn begin() {
    // SAFETY: getpid(2) has no preconditions.
    PROCESS.store(unsafe { sys!(nr::GETPID) }, Ordering::Relaxed);
}

/// Returns true in the process that has called [`begin`].
fn is_protected() -> bool {
    // SAFETY: getpid(2) has no preconditions.
    unsafe { sys!(nr::GETPID) == PROCESS.load(Ordering::Relaxed) }
}

/// close(2), which fails with EBADF for descriptors of the runtime and MPI sides.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: libc's function has this type, and the caller meets its requirements;
    // `__errno_location` returns the address of this thread's errno.
    unsafe {
        if RESERVED_DESCRIPTORS.contains(fd) && is_protected() {
            __errno_location().write(EBADF);
            return -1;
        }
        let real: unsafe extern "C" fn(c_int) -> c_int =
            core::mem::transmute(next(&REAL, c"close"));
        let result = real(fd);
        overwrites::forget(fd);
        result
    }
}

/// close_range(2), except for descriptors of the runtime and MPI sides.
///
/// CLOSE_RANGE_CLOEXEC, which closes nothing before an execution, applies to all descriptors.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    const CLOSE_RANGE_CLOEXEC: c_int = 4;
    // SAFETY: libc's function has this type, and the caller meets its requirements.
    unsafe {
        let real: unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int =
            core::mem::transmute(next(&REAL, c"close_range"));
        let has_reserved = first <= last && last >= RUNTIME_FD_BASE as c_uint;
        if !has_reserved || flags & CLOSE_RANGE_CLOEXEC != 0 || !is_protected() {
            let result = real(first, last, flags);
            forget_range(first, last);
            return result;
        }
        // The ranges before, between and after the reserved descriptors are closed.
        let mut begin = first;
        for fd in (RUNTIME_FD_BASE..ReservedDescriptors::END)
            .filter(|fd| RESERVED_DESCRIPTORS.contains(*fd))
        {
            let fd = fd as c_uint;
            if (begin..=last).contains(&fd) {
                if begin < fd {
                    real(begin, fd - 1, flags);
                }
                begin = fd + 1;
            }
        }
        let result = if begin <= last {
            real(begin, last, flags)
        } else {
            0
        };
        forget_range(first, last);
        result
    }
}

/// closefrom(3), except for descriptors of the runtime and MPI sides.
///
/// # Safety
/// The requirements of libc's function apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the caller meets the requirements of libc's function.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

fn forget_range(first: c_uint, last: c_uint) {
    for fd in first.min(RUNTIME_FD_BASE as c_uint)..=last.min(RUNTIME_FD_BASE as c_uint) {
        overwrites::forget(fd as c_int);
    }
}
