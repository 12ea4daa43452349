//! Checkpoints that must be on disk before the program continues or stops.

use crate::Runtime;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use understudy_image::store::PageStore;
use understudy_mpi::call;
use understudy_numbers::{Epoch, Worker};

/// Time between two polls of the writer.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

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

/// Waits until this worker's file of a committed checkpoint is written.
///
/// Returns false if the file cannot be written, or if another MPI instance is required first.
pub fn await_file(rt: &Runtime, store: &mut PageStore, epoch: Epoch) -> bool {
    let Some(disk) = &mut *rt.disk.level.borrow_mut() else {
        return false;
    };
    while disk.writing.is_some() && !call::is_over() {
        disk.poll_writer(store);
        std::thread::sleep(POLL_INTERVAL);
    }
    disk.writing.is_none() && disk.written.is_some_and(|key| key.epoch == epoch)
}

/// Records that all workers have a file of this checkpoint, which is the last one written.
pub fn record_complete(rt: &Runtime, worker: Worker, epoch: Epoch) {
    if let Some(disk) = &mut *rt.disk.level.borrow_mut()
        && let Some(key) = disk.written.filter(|key| key.epoch == epoch)
    {
        disk.complete(key, worker);
    }
}

/// Reports the reason why a file could not be written, in the first worker with a reason.
pub fn report_failure(rt: &Runtime, first: Option<Worker>, worker: Worker) {
    if let (Some(_), Some(disk)) = (first, &mut *rt.disk.level.borrow_mut()) {
        disk.report_trouble(first, worker);
    }
}
