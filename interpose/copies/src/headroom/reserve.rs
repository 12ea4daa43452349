//! Available memory, and the part of it that stays free for the program.

use crate::world;
use std::sync::OnceLock;
use understudy_formats::budget::MemoryBudget;
use understudy_formats::cgroup::ControlGroups;
use understudy_job::Runtime;
use understudy_numbers::Worker;

/// Reserve in bytes for each process that can allocate memory concurrently.
const RESERVE_PER_PROCESS: u64 = 24 << 20;
/// Divisor of a limit that gives the maximum reserve.
const RESERVE_DIVISOR: u64 = 8;

/// Returns the available memory; estimated roughly if more than `ample` bytes are available.
pub fn budget(ample: u64) -> Option<MemoryBudget> {
    static GROUPS: OnceLock<Option<ControlGroups>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let mut groups = ControlGroups::own()?;
        groups.retain_limited();
        Some(groups)
    });
    MemoryBudget::within(groups.as_ref(), ample)
}

/// Returns the workers on the node of this worker.
pub fn workers_on_node(rt: &Runtime) -> impl Iterator<Item = Worker> {
    let world = world::get(rt);
    let own = world.node_of(world::worker(rt));
    let all = Worker::all(world.worker_count);
    all.filter(move |&worker| world.node_of(worker) == own)
}

/// Returns the number of workers of this node that can allocate memory concurrently.
pub fn allocating_workers(rt: &Runtime) -> u64 {
    static PROCESSORS: OnceLock<u64> = OnceLock::new();
    // Cached, because the standard library reads files of the control group.
    let count = || std::thread::available_parallelism().map_or(1, |it| it.get() as u64);
    (workers_on_node(rt).count() as u64).min(*PROCESSORS.get_or_init(count))
}

/// Returns the bytes that stay free for the program.
pub fn reserve(budget: &MemoryBudget, allocating: u64) -> u64 {
    (RESERVE_PER_PROCESS * allocating).min(budget.bytes / RESERVE_DIVISOR)
}
