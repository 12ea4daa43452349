//! Memory is made present by a thread while its owner waits for what is to be put there.
//!
//! First touch of fresh memory costs more than the copy into it; on a machine with a free core it
//! costs nothing here.

#![allow(unsafe_code)]

use super::runs::AddrRange;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// So much at a time, so that other changes of the address space need not wait for long.
const PIECE: u64 = 4 << 20;

/// A thread that makes memory present; it has ended when this is dropped.
#[derive(Debug)]
pub struct Prefault {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Prefault {
    /// Begins with the first of `ranges`. What they hold does not change, and nothing is wrong if
    /// it cannot be done: whoever writes there makes it present as well.
    pub fn start(ranges: Vec<AddrRange>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("understudy-prefault".into());
        let is_any = !ranges.is_empty();
        let thread = is_any.then(|| thread.spawn(move || touch(&ranges, &seen)));
        Self {
            thread: thread.and_then(Result::ok),
            stop,
        }
    }

    /// Waits until all of it is present.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Prefault {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wait();
    }
}

fn touch(ranges: &[AddrRange], stop: &AtomicBool) {
    for range in ranges {
        let mut at = range.start;
        while at < range.end && !stop.load(Ordering::Relaxed) {
            // Pieces end at multiples of their size, so that no huge page is cut.
            let end = range.end.min((at / PIECE + 1) * PIECE);
            // SAFETY: populating makes pages present and does not change what they hold.
            let _ = unsafe {
                libc::madvise(
                    at as *mut libc::c_void,
                    (end - at) as usize,
                    libc::MADV_POPULATE_WRITE,
                )
            };
            at = end;
        }
    }
}
