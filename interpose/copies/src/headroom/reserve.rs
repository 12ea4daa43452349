//! Available memory, and the part of it that stays free for the program.

use crate::world;
use std::sync::OnceLock;
use understudy_formats::budget::Budget;
use understudy_formats::cgroup::Groups;
use understudy_job::Runtime;
use understudy_numbers::Worker;

/// Reserve in bytes for each process that can allocate memory concurrently.
const RESERVE: u64 = 24 << 20;
/// Divisor of a limit that gives the maximum reserve.
const MOST_RESERVE: u64 = 8;

/// Returns the available memory; estimated roughly if more than `ample` bytes are available.
pub fn budget(ample: u64) -> Option<Budget> {
    static GROUPS: OnceLock<Option<Groups>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let mut groups = Groups::own()?;
        groups.retain_limited();
        Some(groups)
    });
    Budget::within(groups.as_ref(), ample)
}

/// Returns the number of workers on the node of this worker.
pub fn neighbours(rt: &Runtime) -> u64 {
    let world = world::get(rt);
    let own = world.node_of(world::worker(rt));
    let all = Worker::all(world.worker_count);
    all.filter(|&worker| world.node_of(worker) == own).count() as u64
}

/// Returns the number of workers of this node that can allocate memory concurrently.
pub fn allocating(rt: &Runtime) -> u64 {
    static PROCESSORS: OnceLock<u64> = OnceLock::new();
    // Cached, because the standard library reads files of the control group.
    let count = || std::thread::available_parallelism().map_or(1, |it| it.get() as u64);
    neighbours(rt).min(*PROCESSORS.get_or_init(count))
}

/// Returns the bytes that stay free for the program.
pub fn reserve(budget: &Budget, allocating: u64) -> u64 {
    (RESERVE * allocating).min(budget.bytes / MOST_RESERVE)
}
