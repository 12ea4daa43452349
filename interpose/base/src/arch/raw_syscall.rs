//! System calls without libc.
//!
//! The fs register of the calling thread may point to the control block of a thread of the program.
//! The runtime side's libc must not store `errno` in that thread's data.
#![allow(unsafe_code)]

use std::arch::asm;
use std::sync::atomic::AtomicU32;

/// Returns a pointer to the word at an address.
pub fn word(at: usize) -> *mut usize {
    at as *mut usize
}

/// Makes a system call; returns its result, or the negative error number.
///
/// # Safety
/// The requirements of the system call apply.
#[inline(always)]
pub unsafe fn syscall(number: i64, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the x86-64 convention; the instruction clobbers rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Sleeps if the word has this value, until a wake-up, a signal or the timeout.
///
/// `limit` is the timeout in nanoseconds, less than one second; 0 means no timeout.
#[inline(always)]
pub fn futex_wait(word: &AtomicU32, value: u32, limit: i64) {
    // struct timespec
    let timeout = [0i64, limit];
    let timeout = if limit == 0 {
        0
    } else {
        timeout.as_ptr() as usize
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        operation as usize,
        value as usize,
        timeout,
        0,
        0,
    ];
    // SAFETY: futex(2) on a valid word.
    unsafe { syscall(libc::SYS_futex, arguments) };
}

/// Wakes all threads that sleep on the word.
#[inline(always)]
pub fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        operation as usize,
        i32::MAX as usize,
        0,
        0,
        0,
    ];
    // SAFETY: futex(2) on a valid word.
    unsafe { syscall(libc::SYS_futex, arguments) };
}
