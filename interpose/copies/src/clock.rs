//! `MPI_Wtime` (MPI 4.1, 9.6), whose reference time stays fixed while the program runs.
//!
//! A re-initialised MPI library would use a new reference time. So the runtime reads the library's
//! `MPI_Wtime` only once, in the first `MPI_Init`, and adds the time that has passed since then on
//! the kernel's monotonic clock. A replacement continues from the dead process's values. If it runs
//! on another node, or after a reboot of the node, its monotonic clock is unrelated to that of the
//! dead process, and the time of day determines the elapsed time.

#![allow(unsafe_code)]

use crate::system_calls::with_exceptions_masked;
use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, clockid_t, timespec};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Difference in seconds between `MPI_Wtime` and the monotonic clock, as bits of an `f64`.
///
/// Any thread may read the offset.
static WTIME_OFFSET: AtomicU64 = AtomicU64::new(UNSET);
/// Value of [`WTIME_OFFSET`] before [`start`]: not a number.
const UNSET: u64 = f64::NAN.to_bits();

/// Values of all clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub struct ClockReading {
    wtime: f64,
    /// Seconds of the monotonic clock, since the node's boot.
    monotonic: f64,
    /// Number that identifies the node's boot.
    boot_number: u64,
    /// Time of day in seconds.
    day_seconds: f64,
}

fn seconds(clock: clockid_t) -> f64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime(2) for a clock that exists in every kernel, with a valid structure.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Number that identifies the node's boot (random(4)).
///
/// The number is read once and cached, because every checkpoint needs it.
static BOOT_NUMBER: LazyLock<u64> = LazyLock::new(|| {
    xxh3_64(&std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default())
});

/// Starts the program's clock; `wtime` is the library's value.
pub fn start(wtime: f64) {
    // The program may have unmasked floating-point exceptions; rounding could raise SIGFPE.
    let offset = with_exceptions_masked(|| wtime - seconds(CLOCK_MONOTONIC));
    WTIME_OFFSET.store(offset.to_bits(), Ordering::Relaxed);
}

/// Returns `MPI_Wtime` in seconds; `None` before [`start`].
#[inline]
pub fn wtime() -> Option<f64> {
    let offset = f64::from_bits(WTIME_OFFSET.load(Ordering::Relaxed));
    (!offset.is_nan()).then(|| seconds(CLOCK_MONOTONIC) + offset)
}

pub fn read_clocks() -> ClockReading {
    with_exceptions_masked(|| {
        let monotonic = seconds(CLOCK_MONOTONIC);
        ClockReading {
            wtime: monotonic + f64::from_bits(WTIME_OFFSET.load(Ordering::Relaxed)),
            monotonic,
            boot_number: *BOOT_NUMBER,
            day_seconds: seconds(CLOCK_REALTIME),
        }
    })
}

/// Continues from a saved reading.
pub fn restore(saved: &ClockReading) {
    let offset = with_exceptions_masked(|| offset_after(saved, &read_clocks()));
    WTIME_OFFSET.store(offset.to_bits(), Ordering::Relaxed);
}

/// Returns the `WTIME_OFFSET` with which `MPI_Wtime` continues from `saved` at `now`.
fn offset_after(saved: &ClockReading, now: &ClockReading) -> f64 {
    match saved.boot_number == now.boot_number {
        true => saved.wtime - saved.monotonic,
        false => saved.wtime + (now.day_seconds - saved.day_seconds).max(0.0) - now.monotonic,
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockReading, offset_after};

    #[test]
    fn time_continues_after_a_restore() {
        let saved = ClockReading {
            wtime: 5.0,
            monotonic: 1000.0,
            boot_number: 1,
            day_seconds: 70_000.0,
        };
        let wtime = |boot, monotonic, day| {
            let now = ClockReading {
                wtime: f64::NAN,
                monotonic,
                boot_number: boot,
                day_seconds: day,
            };
            monotonic + offset_after(&saved, &now)
        };
        assert_eq!(wtime(1, 1003.0, 0.0), 8.0);
        assert_eq!(wtime(2, 20.0, 70_003.5), 8.5);
        // The time of day precedes the saved time of day: `MPI_Wtime` does not decrease.
        assert_eq!(wtime(2, 20.0, 60_000.0), 5.0);
    }
}
