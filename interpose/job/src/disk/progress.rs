//! Progress of the disk level, for any thread of this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use understudy_numbers::Epoch;

/// Last checkpoint that is known to be complete on disk; 0 for none.
static LAST_COMPLETE: AtomicU64 = AtomicU64::new(0);
/// Time from the last cut to its file in nanoseconds.
static TIME_TO_DISK: AtomicU64 = AtomicU64::new(0);

/// Returns the last checkpoint that is known to be complete on disk. Safe in any thread.
pub fn last_complete() -> Option<Epoch> {
    match LAST_COMPLETE.load(Ordering::Relaxed) {
        0 => None,
        epoch => Some(Epoch(epoch)),
    }
}

pub(super) fn set_last_complete(epoch: Epoch) {
    LAST_COMPLETE.store(epoch.0, Ordering::Relaxed);
}

/// Returns the time from the last cut to its file; zero before the first. Safe in any thread.
pub fn time_to_disk() -> Duration {
    Duration::from_nanos(TIME_TO_DISK.load(Ordering::Relaxed))
}

pub(super) fn set_time_to_disk(time: Duration) {
    TIME_TO_DISK.store(time.as_nanos() as u64, Ordering::Relaxed);
}
