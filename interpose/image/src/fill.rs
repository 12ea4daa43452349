//! Loads many pages: two threads verify their checksums and copy them.
//!
//! The first touch of new memory costs more than the copy into it, and both cost more than the
//! verification. Each thread takes one piece after the other, makes the piece's memory present and
//! fills it while it is in the processor's cache. The pages are also searched at that moment
//! ([`PagePredicate`]), because reading all memory again would take about as long as the copy.
//!
//! The cost of a first touch can differ between the threads: the kernel keeps free pages per
//! processor. The processor on which the failed process exited has the pages that it freed. Another
//! processor may get pages that a virtual machine must first request from its host, which takes
//! about twenty times as long. So the cost is measured for each thread. If the cost is much higher
//! for one thread, the other thread touches pieces for both, and the slow one only fills them.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::image_delta::SlotRun;
use super::pages::{PageIndex, PageRun, normalise, push};
use super::store::{PageStore, Slot};
use super::threads::{processor_time, with_signals_blocked};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pages per piece, the unit of work of a thread.
///
/// Pieces end at multiples of this number, so that threads share no page table.
const PIECE_PAGES: u64 = 512;
/// Pages that are made present, verified and copied together, while they are in the cache.
const BATCH_PAGES: u64 = 64;
/// Minimum number of pages of a batch that are made present before the copy.
const MIN_PREFAULT_PAGES: u64 = 8;
/// First-touch time of a page, in nanoseconds, above which the page counts as not available.
///
/// An available page takes 0.4 us, and a page that a host has to provide takes 9 us.
const MAX_AVAILABLE_TOUCH_NS: u64 = 2000;
/// Maximum number of pieces made present ahead of the thread that fills them.
const MAX_PIECES_AHEAD: usize = 4;
/// Minimum number of pages (4 MiB) for which a second thread is started.
const MIN_PAGES_FOR_THREAD: u64 = 1 << 10;

/// Predicate that selects pages by their content; called by two threads.
pub type PagePredicate<'a> = &'a (dyn Fn(&[u8]) -> bool + Sync);

/// Verifies pages and copies them to their addresses.
///
/// Returns the pages (sorted) that `predicate` has selected. The error is the number of a damaged
/// page; the target memory is unusable then.
pub fn verify_and_fill(
    list: &[SlotRun],
    store: &PageStore,
    predicate: PagePredicate<'_>,
) -> Result<Vec<PageRun>, PageIndex> {
    let work = FillWork {
        pieces: list.iter().flat_map(pieces).collect(),
        store,
        predicate,
        queue: Mutex::new(PieceQueue::default()),
        touch_ns: Default::default(),
        stop: AtomicBool::new(false),
    };
    let pages: u64 = list.iter().map(|run| run.pages.pages).sum();
    if pages < MIN_PAGES_FOR_THREAD {
        return work.run(0);
    }
    let (own, other) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("understudy-load".into());
        // Without a second thread, the current thread processes all pieces.
        let other = with_signals_blocked(|| thread.spawn_scoped(scope, || work.run(1)));
        let own = work.run(0);
        (own, other.ok().and_then(|other| other.join().ok()))
    });
    let found = [own?, other.unwrap_or(Ok(Vec::new()))?].concat();
    Ok(normalise(found))
}

/// Divides a run at multiples of [`PIECE_PAGES`] pages.
fn pieces(run: &SlotRun) -> impl Iterator<Item = SlotRun> + use<> {
    divide(*run, |page| (page / PIECE_PAGES + 1) * PIECE_PAGES)
}

fn batches(piece: SlotRun) -> impl Iterator<Item = SlotRun> {
    divide(piece, |page| page + BATCH_PAGES)
}

/// Divides a run into sub-runs.
///
/// `end` maps the first page of a sub-run to its end.
fn divide(run: SlotRun, end: impl Fn(u64) -> u64) -> impl Iterator<Item = SlotRun> {
    let (start, slot) = (run.pages.start.0, run.slot.0);
    let mut next = start;
    std::iter::from_fn(move || {
        let first = next;
        next = end(first).min(run.pages.end());
        (first < next).then(|| SlotRun {
            pages: PageRun::between(first, next),
            slot: Slot(slot + (first - start)),
        })
    })
}

/// State that both threads use.
struct FillWork<'a> {
    pieces: Vec<SlotRun>,
    store: &'a PageStore,
    predicate: PagePredicate<'a>,
    queue: Mutex<PieceQueue>,
    /// Processor time in nanoseconds per page and thread for the first touch; 0 if unknown.
    touch_ns: [AtomicU64; 2],
    stop: AtomicBool,
}

// SAFETY: the threads only read the store, and exit before `verify_and_fill` returns. Each piece
// is processed by only one thread.
unsafe impl Sync for FillWork<'_> {}

#[derive(Default)]
struct PieceQueue {
    /// First piece that no thread has taken.
    next_piece: usize,
    /// Pieces that were made present for the other thread.
    present: Vec<SlotRun>,
}

/// Next action of a thread.
enum FillStep {
    /// Fills a piece that the other thread has made present.
    Fill(SlotRun),
    TouchAndFill(SlotRun),
    /// Makes a piece present for the other thread, for which first touch is slow.
    TouchForOther(SlotRun),
    /// Waits for the other thread to make a piece present.
    Wait,
}

impl FillWork<'_> {
    /// Processes pieces until none is left, as thread 0 or 1.
    ///
    /// Returns the selected pages or the damaged page, as [`verify_and_fill`] does.
    fn run(&self, thread: usize) -> Result<Vec<PageRun>, PageIndex> {
        let mut found = Vec::new();
        while let Some(step) = self.step(thread) {
            let done = match step {
                FillStep::Fill(piece) => self.fill(piece, None, &mut found),
                FillStep::TouchAndFill(piece) => self.fill(piece, Some(thread), &mut found),
                FillStep::TouchForOther(piece) => {
                    self.touch(piece.pages, thread);
                    self.queue().present.push(piece);
                    Ok(())
                }
                FillStep::Wait => {
                    std::thread::yield_now();
                    Ok(())
                }
            };
            done.inspect_err(|_| self.stop.store(true, Ordering::Relaxed))?;
        }
        Ok(found)
    }

    /// Selects the next action of a thread.
    ///
    /// `None` if nothing is left, or after an error.
    fn step(&self, thread: usize) -> Option<FillStep> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let mut queue = self.queue();
        let (next, is_slow) = (
            self.pieces.get(queue.next_piece).copied(),
            self.is_slow(thread),
        );
        if (next.is_none() || is_slow)
            && let Some(piece) = queue.present.pop()
        {
            return Some(FillStep::Fill(piece));
        }
        let next = next?;
        if is_slow {
            return Some(FillStep::Wait);
        }
        queue.next_piece += 1;
        let other_needs_piece = self.is_slow(1 - thread) && queue.present.len() < MAX_PIECES_AHEAD;
        Some(if other_needs_piece {
            FillStep::TouchForOther(next)
        } else {
            FillStep::TouchAndFill(next)
        })
    }

    fn queue(&self) -> MutexGuard<'_, PieceQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if first touch costs this thread much more than the other thread.
    fn is_slow(&self, thread: usize) -> bool {
        let [own, other] =
            [thread, 1 - thread].map(|thread| self.touch_ns[thread].load(Ordering::Relaxed));
        other > 0 && own > MAX_AVAILABLE_TOUCH_NS.max(4 * other)
    }

    /// Makes pages present and records the cost.
    ///
    /// Does nothing for fewer than [`MIN_PREFAULT_PAGES`] pages.
    fn touch(&self, pages: PageRun, thread: usize) {
        if pages.pages < MIN_PREFAULT_PAGES {
            return;
        }
        let began = processor_time();
        make_present(pages);
        let cost = (processor_time() - began).as_nanos() as u64 / pages.pages;
        let touch_ns = &self.touch_ns[thread];
        let mean = match touch_ns.load(Ordering::Relaxed) {
            0 => cost,
            before => (7 * before + cost) / 8,
        };
        touch_ns.store(mean, Ordering::Relaxed);
    }

    /// Verifies and copies a piece.
    ///
    /// `touching` is the number of the thread that makes each batch present first; `None` if the
    /// piece is already present.
    fn fill(
        &self,
        piece: SlotRun,
        touching: Option<usize>,
        found: &mut Vec<PageRun>,
    ) -> Result<(), PageIndex> {
        for batch in batches(piece) {
            if let Some(thread) = touching {
                self.touch(batch.pages, thread);
            }
            let search = |page: PageIndex, content: &[u8]| {
                if (self.predicate)(content) {
                    push(found, PageRun::between(page.0, page.0 + 1));
                }
            };
            if let Some(damaged) = self.store.verify_each(&batch, search) {
                return Err(damaged);
            }
            copy_in(&batch, self.store);
        }
        Ok(())
    }
}

/// Makes pages present.
///
/// Errors are ignored, since the later copy also makes the pages present.
fn make_present(pages: PageRun) {
    let range = pages.range();
    // SAFETY: populating makes pages present and does not change their content.
    let _ = unsafe {
        libc::madvise(
            range.start as *mut libc::c_void,
            range.len() as usize,
            libc::MADV_POPULATE_WRITE,
        )
    };
}

/// Copies pages to their addresses.
pub fn copy_in(run: &SlotRun, store: &PageStore) {
    let to = run.pages.start.addr() as *mut u8;
    let bytes = run.pages.pages as usize * PAGE_SIZE;
    // SAFETY: the pages belong to the program side, which is stopped, and are opened for writing,
    // or belong to its stack. The slots lie in the arena outside of the program side.
    unsafe { to.copy_from_nonoverlapping(store.ptr(run.slot), bytes) };
}
