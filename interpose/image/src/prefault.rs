//! A thread that makes memory present while the process waits for the content.
//!
//! The first touch of new memory costs more than the copy into it. If a core is free, the thread
//! hides that cost.

#![allow(unsafe_code)]

use super::pages::AddrRange;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Bytes per call of madvise(2), which blocks other changes of the address space meanwhile.
const PIECE_BYTES: u64 = 4 << 20;

/// Thread that makes memory present; dropping stops it and waits for its exit.
#[derive(Debug)]
pub struct Prefault {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Prefault {
    /// Starts the thread, which begins with the first of `ranges`.
    ///
    /// The content of the memory does not change. Errors are ignored, since a later write also
    /// makes the memory present.
    pub fn start(ranges: Vec<AddrRange>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread_stop = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("understudy-prefault".into());
        let is_needed = !ranges.is_empty();
        let thread = is_needed.then(|| thread.spawn(move || touch(&ranges, &thread_stop)));
        Self {
            thread: thread.and_then(Result::ok),
            stop,
        }
    }

    /// Blocks until the thread has processed all ranges, or was stopped.
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

/// Makes ranges present, piece by piece, until `stop` is set.
fn touch(ranges: &[AddrRange], stop: &AtomicBool) {
    for range in ranges {
        let mut at = range.start;
        while at < range.end && !stop.load(Ordering::Relaxed) {
            // Pieces end at multiples of their size, so that no huge page is split.
            let end = range.end.min((at / PIECE_BYTES + 1) * PIECE_BYTES);
            // SAFETY: populating makes pages present and does not change their content.
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
