//! Memory that is available for replicas beside the program.
//!
//! A program that fits into its control group must also succeed under understudy. So
//! - a checkpoint is taken only if its replicas fit on every node
//!   ([`understudy_policy::memory_demand`]);
//! - a thread polls the available memory (`replica_release`). If the program needs the memory of
//!   the replicas, it gets that memory, and the job is not protected any more.

mod replica_release;
mod reserve;

use crate::world;
pub use replica_release::{cause, is_memory_released, watch};
pub use reserve::workers_on_node;
use reserve::{allocating_workers, budget, reserve};
use understudy_formats::budget::MemoryBudget;
use understudy_formats::proc_file::ProcFile;
use understudy_image::PAGE_SIZE;
use understudy_job::Runtime;
use understudy_policy::memory_demand::MemoryClaim;

/// Returns the claim of this worker for a checkpoint of at most `most` pages.
///
/// `free_and_count` frees unused memory and counts the pages exactly. The function is slow, so it
/// is called only if memory may be short.
pub fn claim(rt: &Runtime, most: u64, free_and_count: impl FnOnce() -> Option<u64>) -> MemoryClaim {
    let neighbours = workers_on_node(rt).count() as u64;
    let shares = 1 + world::get(rt).redundancy.images_per_worker() as u64;
    let demand = most * PAGE_SIZE as u64 * shares * neighbours;
    let is_ample = |budget: &MemoryBudget| budget.free > 2 * demand;
    let Some(budget) = budget(2 * demand) else {
        return MemoryClaim::NONE;
    };
    if is_ample(&budget) {
        return MemoryClaim::of(most, &budget, 0, PAGE_SIZE as u64);
    }
    let captured = free_and_count().map_or(most, |exact| exact.min(most));
    let budget = reserve::budget(u64::MAX).unwrap_or(budget);
    MemoryClaim::of(
        captured,
        &budget,
        2 * reserve(&budget, allocating_workers(rt)),
        PAGE_SIZE as u64,
    )
}

/// Describes the limit with the least available memory for this process, for messages.
pub fn tightest() -> String {
    budget(u64::MAX).map_or_else(|| "this node".into(), |budget| budget.to_string())
}

/// Checks that each worker of this node can temporarily use `bytes` more bytes.
///
/// # Errors
/// Fails with the reason if too little memory is available.
pub fn check_room(rt: &Runtime, bytes: u64) -> Result<(), String> {
    let Some(budget) = budget(2 * bytes) else {
        return Ok(());
    };
    let neighbours = workers_on_node(rt).count() as u64;
    let needed = bytes * neighbours + 2 * reserve(&budget, allocating_workers(rt));
    match budget.free < needed {
        true => Err(format!("not enough memory is left in {budget}")),
        false => Ok(()),
    }
}

/// Returns the bytes of anonymous and of other memory of this process (proc(5), statm).
///
/// Zero if the kernel does not report them.
pub fn resident_memory() -> [u64; 2] {
    static PAGES: ProcFile = ProcFile::new("/proc/self/statm");
    let pages = PAGES.read().unwrap_or_default();
    let mut pages = pages
        .split(' ')
        .skip(1)
        .map_while(|text| text.parse::<u64>().ok());
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    [resident.saturating_sub(shared), shared].map(|pages| pages * PAGE_SIZE as u64)
}
