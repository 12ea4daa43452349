//! Checks of kernel functions, made by calling them.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Returns the result of a system call, or `errno` if the result is negative.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Checks if address randomisation can be switched off (personality(2)), and restores it.
pub fn personality() -> io::Result<()> {
    const QUERY: libc::c_ulong = 0xffff_ffff;
    // SAFETY: personality(2) takes flags only; the change affects later executions only, and is
    // undone.
    unsafe {
        let before = check(libc::personality(QUERY).into())? as libc::c_ulong;
        check(libc::personality(before | libc::ADDR_NO_RANDOMIZE as libc::c_ulong).into())?;
        check(libc::personality(before).into()).map(drop)
    }
}

/// Checks userfaultfd(2) with asynchronous write protection (Linux 6.7).
pub fn write_protection() -> io::Result<()> {
    const USER_MODE_ONLY: i32 = 1;
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
    const FEATURES: u64 = 1 << 13 | 1 << 15;
    let mut api: [u64; 3] = [0xaa, FEATURES, 0];
    // SAFETY: the descriptor is new, and the pointer refers to the structure of three words that
    // the request expects.
    unsafe {
        let fd = check(libc::syscall(
            libc::SYS_userfaultfd,
            libc::O_CLOEXEC | USER_MODE_ONLY,
        ))?;
        let fd = OwnedFd::from_raw_fd(fd as i32);
        check(libc::ioctl(fd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()).into()).map(drop)
    }
}

/// Checks `PAGEMAP_SCAN` (Linux 6.7) with an empty range.
pub fn pagemap_scan() -> io::Result<()> {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    let file = std::fs::File::open("/proc/self/pagemap")?;
    // `struct pm_scan_arg`: its size, no flags, an empty range; one category to return.
    let mut request: [u64; 12] = [96, 0, 4096, 4096, 0, 0, 0, 0, 0, 0, 0, 2];
    // SAFETY: the pointer refers to the structure that the request expects. The structure has no
    // vector, so the kernel writes only its fifth field, the end of the walk.
    check(unsafe { libc::ioctl(file.as_raw_fd(), PAGEMAP_SCAN, request.as_mut_ptr()) }.into())
        .map(drop)
}

/// Checks syscall user dispatch (Linux 5.11) by switching it off, which has no effect.
pub fn system_call_dispatch() -> io::Result<()> {
    const SET_SYSCALL_USER_DISPATCH: i32 = 59;
    // SAFETY: the arguments of prctl(2) are numbers only.
    check(unsafe { libc::prctl(SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) }.into()).map(drop)
}

/// Checks a counting breakpoint (perf_event_open(2)) on a function of this program.
pub fn breakpoint() -> io::Result<()> {
    const BREAKPOINT: u64 = 5;
    const EXECUTE: u64 = 4;
    const USER_ONLY: u64 = 1 << 5 | 1 << 6;
    let address = breakpoint as fn() -> io::Result<()> as usize as u64;
    // The first 72 bytes of `struct perf_event_attr`: type and size share a word, and so do wakeup
    // and the breakpoint's type.
    let attributes: [u64; 9] = [
        BREAKPOINT | 72 << 32,
        0,
        0,
        0,
        0,
        USER_ONLY,
        EXECUTE << 32,
        address,
        8,
    ];
    // SAFETY: the structure has the size that it states; the descriptor is new.
    unsafe {
        let fd = check(libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            0,
            -1,
            -1,
            8,
        ))?;
        drop(OwnedFd::from_raw_fd(fd as i32));
    }
    Ok(())
}

/// Returns the version of the C library.
pub fn glibc() -> String {
    // SAFETY: glibc returns a constant string.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }
        .to_string_lossy()
        .into_owned()
}
