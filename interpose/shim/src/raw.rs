//! System calls that the runtime and MPI sides make by syscall(2).
//!
//! Mappings are the library's, too, and so is what is written on descriptors 1 and 2.
//!
//! UCX 1.13, that of Debian 12, maps the arrays of its callback queues so (`ucs_sys_realloc`), past
//! libc's mmap, whose instruction is patched. The kernel put them among the program's memory, from
//! which a recovery removes what the program has not mapped.
#![allow(unsafe_code)]

use crate::descriptors::{F_DUPFD, F_DUPFD_CLOEXEC, note};
use crate::streams;
use core::arch::asm;
use core::ffi::{c_int, c_long, c_void};

const WRITE: c_long = 1;
const WRITEV: c_long = 20;
const MMAP: c_long = 9;
const MREMAP: c_long = 25;
const FCNTL: c_long = 72;
/// The greatest number of an error, as system calls give them (negated).
const LAST_ERROR: c_long = 4095;

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

/// syscall(2), whose arguments are as many as the call has.
///
/// # Safety
/// As the system call says.
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
    // SAFETY: handed on to the caller; errno of this thread.
    unsafe {
        let first = match number {
            WRITE | WRITEV => streams::own(first as c_int) as usize,
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
                if !(-LAST_ERROR..0).contains(&result) {
                    if number == FCNTL && matches!(second as c_int, F_DUPFD | F_DUPFD_CLOEXEC) {
                        note(result as c_int);
                    }
                    return result;
                }
                __errno_location().write(-result as c_int);
                -1
            }
        }
    }
}
