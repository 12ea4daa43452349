//! Memory that is left for copies beside the program.
//!
//! A program that fits into its control group must end well under understudy, too. So
//! - a checkpoint is taken only if its copies fit on every node ([`demand`]);
//! - a thread polls the memory that is left ([`relief`]). Where the program itself needs the memory
//!   of the copies, it gets that memory, and the job is not protected any more.

mod demand;
mod relief;

use crate::world::{self, Runtime};
pub use demand::{Claim, Shortage, shortage};
pub use relief::{cause, has_given_up, watch};
use std::sync::OnceLock;
use understudy_formats::budget::Budget;
use understudy_formats::cgroup::Groups;
use understudy_formats::proc_file::ProcFile;
use understudy_image::PAGE_SIZE;
use understudy_numbers::Worker;

/// Reserve for each process that can allocate memory at a time, in bytes.
const RESERVE: u64 = 24 << 20;
/// Part of a limit that the reserve takes at most.
const MOST_RESERVE: u64 = 8;

/// Returns the memory that is left; counted roughly where more than `ample` bytes are.
fn budget(ample: u64) -> Option<Budget> {
    static GROUPS: OnceLock<Option<Groups>> = OnceLock::new();
    let groups = GROUPS.get_or_init(|| {
        let mut groups = Groups::own()?;
        groups.retain_limited();
        Some(groups)
    });
    Budget::within(groups.as_ref(), ample)
}

/// Number of workers on the node of this worker.
fn neighbours(rt: &Runtime) -> u64 {
    let world = world::get(rt);
    let own = world.node_of(world::worker(rt));
    let all = Worker::all(world.worker_count);
    all.filter(|&worker| world.node_of(worker) == own).count() as u64
}

/// Number of workers of this node that can allocate memory at a time.
fn allocating(rt: &Runtime) -> u64 {
    static PROCESSORS: OnceLock<u64> = OnceLock::new();
    // The library reads files of the control group for it.
    let count = || std::thread::available_parallelism().map_or(1, |it| it.get() as u64);
    neighbours(rt).min(*PROCESSORS.get_or_init(count))
}

/// Bytes that stay free for the program.
fn reserve(budget: &Budget, allocating: u64) -> u64 {
    (RESERVE * allocating).min(budget.bytes / MOST_RESERVE)
}

/// Returns what this worker claims for a checkpoint of this many pages at most.
///
/// `save` frees what it can and counts the pages. That takes time, so it is only called where
/// memory is short.
pub fn claim(rt: &Runtime, most: u64, save: impl FnOnce() -> Option<u64>) -> Claim {
    let neighbours = neighbours(rt);
    let shares = 1 + world::get(rt).redundancy.kept() as u64;
    let demand = most * PAGE_SIZE as u64 * shares * neighbours;
    let is_ample = |budget: &Budget| budget.free > 2 * demand;
    let Some(budget) = budget(2 * demand) else {
        return Claim::NONE;
    };
    if is_ample(&budget) {
        return Claim::of(most, &budget, 0);
    }
    let captured = save().map_or(most, |exact| exact.min(most));
    let budget = self::budget(u64::MAX).unwrap_or(budget);
    Claim::of(captured, &budget, 2 * reserve(&budget, allocating(rt)))
}

/// Returns the limit that leaves least here, for messages.
pub fn tightest() -> String {
    budget(u64::MAX).map_or_else(|| "this node".into(), |budget| budget.to_string())
}

/// Refuses work that takes this many bytes for a while, where less memory is left.
///
/// # Errors
/// The reason.
pub fn check_room(rt: &Runtime, bytes: u64) -> Result<(), String> {
    let Some(budget) = budget(2 * bytes) else {
        return Ok(());
    };
    let neighbours = neighbours(rt);
    let needed = bytes * neighbours + 2 * reserve(&budget, allocating(rt));
    match budget.free < needed {
        true => Err(format!("not enough memory is left in {budget}")),
        false => Ok(()),
    }
}

/// Bytes of anonymous memory and of other memory that this process has (proc(5), statm).
///
/// Zero if the kernel does not say.
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
