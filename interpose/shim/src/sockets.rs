//! Writes of the runtime and MPI sides to sockets, which never raise SIGPIPE.
//!
//! A peer that fails during a write must not kill a surviving rank. The disposition of SIGPIPE
//! belongs to the program and cannot be changed. The functions below therefore write with
//! MSG_NOSIGNAL first, and call libc's function if the descriptor is no socket.
#![allow(unsafe_code)]

use crate::streams::redirected_descriptor;
use crate::threads::libc_function;
use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;

const MSG_NOSIGNAL: c_int = 0x4000;
const ENOTSOCK: c_int = 88;

/// `struct msghdr` of sendmsg(2).
#[repr(C)]
struct Message {
    name: *mut c_void,
    name_length: u32,
    parts: *const c_void,
    part_count: usize,
    control: *mut c_void,
    control_length: usize,
    flags: c_int,
}

unsafe extern "C" {
    fn sendmsg(fd: c_int, message: *const Message, flags: c_int) -> isize;
    fn sendto(
        fd: c_int,
        data: *const c_void,
        length: usize,
        flags: c_int,
        to: *const c_void,
        to_length: u32,
    ) -> isize;
    fn __errno_location() -> *mut c_int;
}

fn is_not_a_socket() -> bool {
    // SAFETY: libc returns the address of this thread's errno, which is always valid.
    unsafe { __errno_location().read() == ENOTSOCK }
}

/// write(2) without SIGPIPE on sockets.
///
/// # Safety
/// The requirements of write(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, length: usize) -> isize {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    let fd = redirected_descriptor(fd);
    // SAFETY: libc's function has this type; the caller meets the requirements of write(2).
    unsafe {
        let sent = sendto(fd, data, length, MSG_NOSIGNAL, core::ptr::null(), 0);
        if sent >= 0 || !is_not_a_socket() {
            return sent;
        }
        let real: unsafe extern "C" fn(c_int, *const c_void, usize) -> isize =
            core::mem::transmute(libc_function(&REAL, c"write"));
        real(fd, data, length)
    }
}

/// writev(2) without SIGPIPE on sockets.
///
/// # Safety
/// The requirements of writev(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const c_void, count: c_int) -> isize {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    let fd = redirected_descriptor(fd);
    let message = Message {
        name: core::ptr::null_mut(),
        name_length: 0,
        parts,
        part_count: count as usize,
        control: core::ptr::null_mut(),
        control_length: 0,
        flags: 0,
    };
    // SAFETY: libc's function has this type; the caller meets the requirements of writev(2), whose
    // vector sendmsg(2) takes.
    unsafe {
        let sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if sent >= 0 || !is_not_a_socket() {
            return sent;
        }
        let real: unsafe extern "C" fn(c_int, *const c_void, c_int) -> isize =
            core::mem::transmute(libc_function(&REAL, c"writev"));
        real(fd, parts, count)
    }
}

/// send(2) without SIGPIPE.
///
/// # Safety
/// The requirements of send(2) apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(
    fd: c_int,
    data: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    // SAFETY: the caller meets the requirements of send(2).
    unsafe { sendto(fd, data, length, flags | MSG_NOSIGNAL, core::ptr::null(), 0) }
}
