//! Clock and sleep, of libc.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// timespec(3type)
#[repr(C)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    fn nanosleep(time: *const Time, rest: *mut c_void) -> c_int;
}

const CLOCK_MONOTONIC: c_int = 1;

/// The monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    let mut time = Time {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: clock_gettime(2) writes a time.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Sleeps for 50 µs; the kernel adds its timer slack, prctl(2), and a signal may end it early.
pub fn sleep_briefly() {
    let time = Time {
        seconds: 0,
        nanoseconds: 50_000,
    };
    // SAFETY: nanosleep(2) with a valid time.
    unsafe { nanosleep(&time, null_mut()) };
}
