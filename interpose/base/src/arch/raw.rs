//! System calls without libc, because the caller has the program's thread-local data.
#![allow(unsafe_code)]

use std::arch::asm;
use std::sync::atomic::AtomicU32;

/// Returns a pointer to the word at an address.
pub fn word(at: usize) -> *mut usize {
    at as *mut usize
}

/// Makes a system call with up to six arguments.
///
/// # Safety
/// As for the system call.
#[inline(always)]
pub unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the x86-64 convention; the instruction clobbers rcx and r11.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Sleeps while the word has this value, until it is woken.
///
/// A `limit` other than 0 is a timeout in nanoseconds.
#[inline(always)]
pub fn wait(word: &AtomicU32, value: u32, limit: i64) {
    let time = [0i64, limit];
    let limit = if limit == 0 {
        0
    } else {
        time.as_ptr() as usize
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        operation as usize,
        value as usize,
        limit,
        0,
        0,
    ];
    // SAFETY: futex(2) on a valid word.
    unsafe { call(libc::SYS_futex, arguments) };
}

/// Wakes all threads that sleep on the word.
#[inline(always)]
pub fn wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        operation as usize,
        usize::MAX >> 33,
        0,
        0,
        0,
    ];
    // SAFETY: futex(2) on a valid word.
    unsafe { call(libc::SYS_futex, arguments) };
}
