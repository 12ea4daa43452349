//! A thread that gives the memory of replicas to the program.
//!
//! Memory must be freed before the kernel kills a process. The kernel does so without a warning,
//! and a program may allocate memory for long between two MPI calls. So the thread frees the pages
//! of replicas at any moment, without a lock. This is safe, since it only damages replicas: freed
//! pages read as zeros, and every page of a replica is verified with its checksum before its use.
//! Checksums computed after the damage would hide it. So a flag is set before pages are freed, and
//! code that computes checksums reads the flag after the computation ([`is_memory_released`]).

use super::reserve::{allocating_workers, budget, reserve};
use crate::{role, system_calls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, Once, OnceLock, PoisonError};
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::budget::MemoryBudget;
use understudy_image::store::ArenaFiles;
use understudy_image::threads::with_signals_blocked;
use understudy_job::Runtime;

/// Bytes that a process can make present per second, with huge pages.
const BYTES_PER_SECOND: u64 = 8 << 30;
/// Shortest and longest time between two polls.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));

static IS_MEMORY_RELEASED: AtomicBool = AtomicBool::new(false);
static CAUSE: OnceLock<String> = OnceLock::new();
static COPIES: Mutex<Option<ArenaFiles>> = Mutex::new(None);
/// Notified when the memory of replicas is needed.
static REQUESTED: Condvar = Condvar::new();

/// True once this process's replicas may be damaged, because the program needs their memory.
pub fn is_memory_released() -> bool {
    IS_MEMORY_RELEASED.load(Ordering::SeqCst)
}

/// Returns the limit that was about to be reached, for messages.
pub fn cause() -> Option<&'static str> {
    is_memory_released().then(|| CAUSE.get().map_or("this node", String::as_str))
}

/// Watches the available memory on behalf of replicas in these files.
pub fn watch(rt: &Runtime, copies: ArenaFiles) {
    static START: Once = Once::new();
    *COPIES.lock().unwrap_or_else(PoisonError::into_inner) = Some(copies);
    START.call_once(|| {
        let allocating = allocating_workers(rt);
        let thread = std::thread::Builder::new().name("understudy-memory".into());
        let poll = move || poll(allocating);
        let start = || {
            std::thread::Builder::new()
                .name("understudy-relief".into())
                .spawn(release_pages)?;
            thread.spawn(poll)
        };
        if let Err(error) = with_signals_blocked(start) {
            log::info!("the memory that is left is not watched: {error}");
        }
    });
}

/// Runs the polling thread while the job is protected.
fn poll(allocating: u64) {
    // Otherwise the descriptors of files of proc(5) would take the numbers that the program's next
    // files must get.
    system_calls::separate_descriptors();
    let mut ample = u64::MAX;
    while role::is_protected() {
        let Some(budget) = budget(ample) else { return };
        let least = reserve(&budget, allocating);
        if budget.free < least {
            request_release(&budget);
        }
        ample = 4 * least;
        std::thread::sleep(pause(budget.free.saturating_sub(least), allocating));
    }
}

/// Returns a time in which processes cannot use up `free` bytes.
fn pause(free: u64, allocating: u64) -> Duration {
    let rate = BYTES_PER_SECOND * allocating;
    Duration::from_micros(free / (rate / 1_000_000)).clamp(POLL_INTERVALS.0, POLL_INTERVALS.1)
}

fn request_release(budget: &MemoryBudget) {
    let _ = CAUSE.set(budget.to_string());
    IS_MEMORY_RELEASED.store(true, Ordering::SeqCst);
    REQUESTED.notify_one();
}

/// Runs the thread that owns the replicas' descriptors and frees their pages on request.
fn release_pages() {
    let mut copies = COPIES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut has_warned = false;
    loop {
        if is_memory_released()
            && let Some(Err(error)) = copies.as_ref().map(ArenaFiles::discard_pages)
            && !std::mem::replace(&mut has_warned, true)
        {
            log::warn!("{}", message::replica_memory_not_freed(error));
        }
        copies = REQUESTED
            .wait(copies)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_follows_the_memory_that_is_left() {
        assert_eq!(pause(0, 4), POLL_INTERVALS.0);
        assert_eq!(pause(1 << 50, 4), POLL_INTERVALS.1);
        let (little, more) = (pause(100 << 20, 1), pause(200 << 20, 1));
        assert!(POLL_INTERVALS.0 < little && little < more && more < POLL_INTERVALS.1);
    }
}
