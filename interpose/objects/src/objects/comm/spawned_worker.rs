//! Numbers of processes that are no workers: the program has spawned them (MPI 4.1, 11.8).

use understudy_numbers::Worker;

pub(super) const FIRST_SPAWNED: u32 = 1 << 31;

/// True for the number of a process that is no worker.
pub fn is_spawned(worker: Worker) -> bool {
    worker.0 >= FIRST_SPAWNED
}
