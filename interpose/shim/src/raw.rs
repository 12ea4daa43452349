//! System calls that the runtime and MPI sides make with syscall(2).
//!
//! Mappings, copies of descriptors, and writes to descriptors 1 and 2 are treated as if the caller
//! had used libc's functions for them.
//!
//! Example: UCX 1.13 (Debian 12) maps the arrays of its callback queues with syscall(2)
//! (`ucs_sys_realloc`). Such a call bypasses libc's mmap, whose instruction is patched. The kernel
//! would place these arrays among the program's memory, where a recovery unmaps everything that the
//! program has not mapped.
#![allow(unsafe_code)]

use crate::descriptors::{F_DUPFD, F_DUPFD_CLOEXEC, record_descriptor};
use crate::streams;
use core::arch::asm;
use core::ffi::{c_int, c_long, c_void};

const WRITE: c_long = 1;
const WRITEV: c_long = 20;
const MMAP: c_long = 9;
const MREMAP: c_long = 25;
const FCNTL: c_long = 72;
/// Maximum error number; a system call returns an error as its negative number.
const MAX_ERRNO: c_long = 4095;

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        length: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn mremap(
        address: *mut c_void,
        length: usize,
        new_length: usize,
        flags: c_int,
        ...
    ) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
}

/// syscall(2).
///
/// A caller passes as many arguments as the system call has; the values of the remaining
/// parameters are ignored.
///
/// # Safety
/// The requirements of the system call apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    // SAFETY: the caller meets the requirements of the system call; `__errno_location` is this
    // thread's errno.
    unsafe {
        let first = match number {
            WRITE | WRITEV => streams::redirected_descriptor(first as c_int) as usize,
            _ => first,
        };
        match number {
            MMAP => {
                let (protection, flags, fd) = (third as c_int, fourth as c_int, fifth as c_int);
                mmap(
                    first as *mut c_void,
                    second,
                    protection,
                    flags,
                    fd,
                    sixth as i64,
                ) as c_long
            }
            MREMAP => mremap(first as *mut c_void, second, third, fourth as c_int, fifth) as c_long,
            _ => {
                let result: c_long;
                asm!(
                    "syscall",
                    inlateout("rax") number => result,
                    in("rdi") first,
                    in("rsi") second,
                    in("rdx") third,
                    in("r10") fourth,
                    in("r8") fifth,
                    in("r9") sixth,
                    lateout("rcx") _,
                    lateout("r11") _,
                    options(nostack),
                );
                if !(-MAX_ERRNO..0).contains(&result) {
                    if number == FCNTL && matches!(second as c_int, F_DUPFD | F_DUPFD_CLOEXEC) {
                        record_descriptor(result as c_int);
                    }
                    return result;
                }
                __errno_location().write(-result as c_int);
                -1
            }
        }
    }
}
