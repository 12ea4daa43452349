//! Removal of killed jobs' leftovers on this node.
//!
//! A search examines many files, so a separate thread makes it and the event loop never waits.

use crossbeam_channel::{Sender, bounded, select, tick};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use understudy_node::leftovers_of_node;

/// Interval of searches.
const PERIOD: Duration = Duration::from_secs(300);
/// Delay after the end of a job, in which its launcher and relays clean up.
const GRACE: Duration = Duration::from_secs(3);

/// Handle of the thread, which ends when the handle is dropped.
#[derive(Debug)]
pub(super) struct Sweeper {
    wake: Sender<()>,
    removed: Arc<AtomicU64>,
}

impl Sweeper {
    /// Starts the thread, which searches for leftovers at once.
    pub(super) fn start() -> Self {
        // A capacity of one request suffices: one further search covers all jobs that end during
        // the current search.
        let (wake, woken) = bounded(1);
        let removed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&removed);
        std::thread::spawn(move || {
            let ticks = tick(PERIOD);
            loop {
                sweep(&count);
                select! {
                    recv(woken) -> job => match job {
                        Ok(()) => std::thread::sleep(GRACE),
                        Err(_) => return,
                    },
                    recv(ticks) -> _ => {}
                }
            }
        });
        Self { wake, removed }
    }

    /// Requests a search after the end of a job.
    pub(super) fn wake(&self) {
        // If the channel is full, an earlier job has already requested the next search.
        let _ = self.wake.try_send(());
    }

    /// Returns the number of files that were removed.
    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }
}

fn sweep(removed: &AtomicU64) {
    for leftover in leftovers_of_node() {
        match leftover.remove() {
            Ok(()) => {
                log::info!(
                    "{} is removed: {}",
                    leftover.path().display(),
                    leftover.kind
                );
                removed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => log::warn!("{} cannot be removed: {error}", leftover.path().display()),
        }
    }
}
