//! Signals that request a checkpoint on disk (`UNDERSTUDY_CHECKPOINT_ON`), at their handler.
//!
//! The handler only records the signal in an atomic; a thread reads the record
//! (`understudy_copies::requested_checkpoint`).
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use understudy_settings::{CheckpointCause, REPETITION_TIME};

/// Claimed signals; bit `n - 1` is signal `n`.
static CLAIMED: AtomicU64 = AtomicU64::new(0);
/// Number of the strongest cause that was not taken; 0 for none.
static CAUSE: AtomicU64 = AtomicU64::new(0);
/// Time of the first request to stop, in nanoseconds of CLOCK_MONOTONIC; 0 for none.
static STOP_REQUESTED: AtomicU64 = AtomicU64::new(0);
/// True if the signals have their default actions.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Claims signals of this mask.
pub fn claim(mask: u64) {
    CLAIMED.store(mask, Ordering::Relaxed);
}

/// True if a signal requests a checkpoint.
pub fn is_claimed(signal: c_int) -> bool {
    (1..=64).contains(&signal) && CLAIMED.load(Ordering::Relaxed) >> (signal - 1) & 1 != 0
}

/// Records a claimed signal; returns true if its default action must follow.
///
/// Safe in a signal handler.
pub fn record(signal: c_int) -> bool {
    let cause = CheckpointCause::Signal(signal);
    if HAS_ENDED.load(Ordering::Relaxed) {
        return true;
    }
    if cause.stops()
        && let Some(earlier) = note_stop()
    {
        return monotonic_ns() - earlier >= REPETITION_TIME.as_nanos() as u64;
    }
    CAUSE.fetch_max(cause.number(), Ordering::Relaxed);
    false
}

/// Records that a stop was requested now; returns the time of an earlier request.
pub fn note_stop() -> Option<u64> {
    let first =
        STOP_REQUESTED.compare_exchange(0, monotonic_ns(), Ordering::Relaxed, Ordering::Relaxed);
    first.err()
}

/// Returns the cause of a request that has not been taken.
pub fn take() -> Option<CheckpointCause> {
    CheckpointCause::from_number(CAUSE.swap(0, Ordering::Relaxed))
}

/// Restores the default actions: no checkpoint follows any more.
pub fn end() {
    HAS_ENDED.store(true, Ordering::Relaxed);
}

/// True if the signals have their default actions.
pub fn has_ended() -> bool {
    HAS_ENDED.load(Ordering::Relaxed)
}

/// Returns the time of CLOCK_MONOTONIC in nanoseconds, which is never 0.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime(2) writes the structure, and is safe in a signal handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    (now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64).max(1)
}
