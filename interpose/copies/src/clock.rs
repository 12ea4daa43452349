//! `MPI_Wtime` (MPI 4.1, 9.6), whose reference time stays fixed while the program runs.
//!
//! A re-initialised MPI library would use a new reference time. So this process adds the time of
//! the kernel's monotonic clock to the library's value in the first `MPI_Init`. A replacement
//! continues from the dead process's values. The monotonic clocks of other nodes, and of a node
//! after a restart, are unrelated; in that case the time of day determines the elapsed time.

#![allow(unsafe_code)]

use crate::sys::quietly;
use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, clockid_t, timespec};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Bits of the difference between `MPI_Wtime` and the monotonic clock, in seconds.
///
/// Any thread may read it.
static OFFSET: AtomicU64 = AtomicU64::new(UNSET);
/// Value that is not a difference.
const UNSET: u64 = f64::NAN.to_bits();

/// Values of all clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, bincode::Encode, bincode::Decode)]
pub struct Reading {
    wtime: f64,
    /// Seconds of the monotonic clock, since the node's boot.
    monotonic: f64,
    /// Number that identifies the node's boot.
    boot: u64,
    /// Time of day in seconds.
    day: f64,
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
/// Read once, because every checkpoint needs it.
static BOOT: LazyLock<u64> = LazyLock::new(|| {
    xxh3_64(&std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default())
});

/// Starts the program's clock; `wtime` is the library's value.
pub fn start(wtime: f64) {
    let offset = quietly(|| wtime - seconds(CLOCK_MONOTONIC));
    OFFSET.store(offset.to_bits(), Ordering::Relaxed);
}

/// Returns `MPI_Wtime` in seconds; `None` before [`start`].
#[inline]
pub fn wtime() -> Option<f64> {
    let offset = f64::from_bits(OFFSET.load(Ordering::Relaxed));
    (!offset.is_nan()).then(|| seconds(CLOCK_MONOTONIC) + offset)
}

pub fn read() -> Reading {
    quietly(|| {
        let monotonic = seconds(CLOCK_MONOTONIC);
        Reading {
            wtime: monotonic + f64::from_bits(OFFSET.load(Ordering::Relaxed)),
            monotonic,
            boot: *BOOT,
            day: seconds(CLOCK_REALTIME),
        }
    })
}

/// Continues from a saved reading.
pub fn restore(saved: &Reading) {
    let offset = quietly(|| offset_after(saved, &read()));
    OFFSET.store(offset.to_bits(), Ordering::Relaxed);
}

/// Returns the difference to the monotonic clock of `now` that continues a reading.
fn offset_after(saved: &Reading, now: &Reading) -> f64 {
    match saved.boot == now.boot {
        true => saved.wtime - saved.monotonic,
        false => saved.wtime + (now.day - saved.day).max(0.0) - now.monotonic,
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, offset_after};

    #[test]
    fn time_goes_on_wherever_the_program_does() {
        let saved = Reading {
            wtime: 5.0,
            monotonic: 1000.0,
            boot: 1,
            day: 70_000.0,
        };
        let wtime = |boot, monotonic, day| {
            let now = Reading {
                wtime: f64::NAN,
                monotonic,
                boot,
                day,
            };
            monotonic + offset_after(&saved, &now)
        };
        assert_eq!(wtime(1, 1003.0, 0.0), 8.0);
        assert_eq!(wtime(2, 20.0, 70_003.5), 8.5);
        // The time of day is behind the saved one: the time does not go back.
        assert_eq!(wtime(2, 20.0, 60_000.0), 5.0);
    }
}
