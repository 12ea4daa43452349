//! Checkpoints that must be on disk before the program continues or stops.

use crate::Runtime;
use std::time::Duration;
use understudy_image::store::PageStore;
use understudy_mpi::call;
use understudy_numbers::{Epoch, Worker};

/// Time between two polls of the writer.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

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

/// Records that all workers have a file of this checkpoint.
pub fn record_complete(rt: &Runtime, worker: Worker, epoch: Epoch) {
    if let Some(disk) = &mut *rt.disk.level.borrow_mut()
        && let Some(key) = disk.written.filter(|key| key.epoch == epoch)
    {
        disk.complete(key, worker);
    }
}

/// Reports why a file could not be written, in the first worker with a reason.
pub fn report_failure(rt: &Runtime, first: Option<Worker>, worker: Worker) {
    if let (Some(_), Some(disk)) = (first, &mut *rt.disk.level.borrow_mut()) {
        disk.report_trouble(first, worker);
    }
}
