//! Removes what killed jobs have left on this node, in a thread of its own: it looks at many files.

use crossbeam_channel::{Sender, bounded, select, tick};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use understudy_node::leftovers_of_node;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(300);
/// After the end of a job its launcher and its relays clean up themselves.
const GRACE: Duration = Duration::from_secs(3);

/// The thread, and how many files it has removed. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Sweeper {
    wake: Sender<()>,
    removed: Arc<AtomicU64>,
}

impl Sweeper {
    /// Starts it; it looks at once.
    pub(super) fn start() -> Self {
        // Jobs that end while one is seen to need one more look.
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

    /// A job has ended.
    pub(super) fn wake(&self) {
        // A full channel wakes it, too.
        let _ = self.wake.try_send(());
    }

    /// How many files were removed.
    pub(super) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }
}

fn sweep(removed: &AtomicU64) {
    for it in leftovers_of_node() {
        match it.remove() {
            Ok(()) => {
                log::info!("{} is removed: {}", it.path().display(), it.what);
                removed.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => log::warn!("{}: {error}", it.path().display()),
        }
    }
}
