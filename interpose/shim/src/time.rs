//! Clock, sleep and preemption count, from libc.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// timespec(3type)
#[repr(C)]
#[derive(Clone, Copy)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

/// rusage of getrusage(2)
#[repr(C)]
struct Usage {
    times: [Time; 2],
    counters: [i64; 14],
}

/// Index of ru_nivcsw in [`Usage::counters`].
const INVOLUNTARY_SWITCHES: usize = 13;
/// Selects the calling thread in getrusage(2).
const RUSAGE_THREAD: c_int = 1;

unsafe extern "C" {
    fn getrusage(who: c_int, usage: *mut Usage) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    fn nanosleep(time: *const Time, remaining: *mut c_void) -> c_int;
}

const CLOCK_MONOTONIC: c_int = 1;

/// Reads the monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    let mut time = Time {
        seconds: 0,
        nanoseconds: 0,
    };
    // SAFETY: clock_gettime(2) writes to the structure in this frame.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Sleeps for 50 µs.
///
/// The kernel adds its timer slack (prctl(2)); a signal may end the sleep early.
pub fn sleep_briefly() {
    let time = Time {
        seconds: 0,
        nanoseconds: 50_000,
    };
    // SAFETY: nanosleep(2) with a valid time.
    unsafe { nanosleep(&time, null_mut()) };
}

/// Returns the number of involuntary context switches of this thread.
///
/// Source: ru_nivcsw of getrusage(2), which includes sched_yield(2).
pub fn preemptions() -> u64 {
    let zero = Time {
        seconds: 0,
        nanoseconds: 0,
    };
    let mut usage = Usage {
        times: [zero; 2],
        counters: [0; 14],
    };
    // SAFETY: getrusage(2) writes to the structure in this frame, which has the kernel's size.
    unsafe { getrusage(RUSAGE_THREAD, &mut usage) };
    usage.counters[INVOLUNTARY_SWITCHES] as u64
}
