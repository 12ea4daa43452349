//! A thread that makes memory present, before the program waits for a copy into it.
//!
//! The first touch of new memory costs more than the copy into it. If a core is free, the thread
//! hides that cost.

#![allow(unsafe_code)]

use super::pages::AddrRange;
use super::threads::with_signals_blocked;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The nice value of the lowest priority (sched(7)).
const LOWEST_NICE_VALUE: libc::c_int = 19;

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
        Self::run(ranges, |ranges, stop| {
            touch(ranges, || stop.load(Ordering::Relaxed))
        })
    }

    /// Starts the thread with the lowest priority, so that it hardly delays the program.
    ///
    /// The thread stops as soon as `is_short` returns true.
    pub fn start_beside_program(ranges: Vec<AddrRange>, is_short: fn() -> bool) -> Self {
        Self::run(ranges, move |ranges, stop| {
            // SAFETY: setpriority(2) concerns the calling thread only. After an error the thread
            // keeps its priority.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LOWEST_NICE_VALUE) };
            touch(ranges, || stop.load(Ordering::Relaxed) || is_short());
        })
    }

    fn run(
        ranges: Vec<AddrRange>,
        work: impl FnOnce(&[AddrRange], &AtomicBool) + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread_stop = Arc::clone(&stop);
        let is_needed = !ranges.is_empty();
        let thread = std::thread::Builder::new().name("understudy-prefault".into());
        let start = || thread.spawn(move || work(&ranges, &thread_stop));
        Self {
            thread: is_needed
                .then(|| with_signals_blocked(start))
                .and_then(Result::ok),
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

/// Makes ranges present, piece by piece, until `must_stop` is true.
fn touch(ranges: &[AddrRange], must_stop: impl Fn() -> bool) {
    for range in ranges {
        let mut at = range.start;
        while at < range.end && !must_stop() {
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
