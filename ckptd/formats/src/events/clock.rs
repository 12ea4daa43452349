//! The two clocks of an event file.
//!
//! Records have times of the monotonic clock. The header has one reading of both clocks, by which
//! readers order the records of several ranks.
#![allow(unsafe_code)]

/// Readings of `CLOCK_REALTIME` and `CLOCK_MONOTONIC` at one moment, in nanoseconds
/// (clock_gettime(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    pub realtime_ns: u64,
    pub monotonic_ns: u64,
}

impl ClockPair {
    pub fn now() -> Self {
        Self {
            realtime_ns: realtime_ns(),
            monotonic_ns: monotonic_ns(),
        }
    }
}

/// Returns `CLOCK_REALTIME` in nanoseconds since 1970.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
