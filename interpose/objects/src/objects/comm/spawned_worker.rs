//! Numbers of processes that the program has spawned (MPI 4.1, 11.8).
//!
//! Spawned processes are not workers.

use understudy_numbers::Worker;

/// Least number of a spawned process, greater than any worker's.
pub(super) const FIRST_SPAWNED: u32 = 1 << 31;

/// True for the number of a process that is not a worker.
pub fn is_spawned(worker: Worker) -> bool {
    worker.0 >= FIRST_SPAWNED
}
