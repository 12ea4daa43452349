//! Loading many pages: compared with their checksums and copied, by two threads.
//!
//! First touch of fresh memory costs more than the copy into it, and both more than the comparison. Each thread takes a piece at a
//! time, makes its memory present and fills it while it is in the processor's cache. What somebody looks for in the pages ([`Seek`]) is
//! looked for then, too: to read all memory once more takes about as long as to copy it.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::epoch::SlotRun;
use super::runs::{PageIndex, PageRun, normalise, push};
use super::store::{PageStore, Slot};
use super::threads::without_signals;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Pages of a piece, in which pages are made present at once. Pieces end at multiples of this, so that no huge page is cut.
const PIECE: u64 = 512;
/// Pages that are compared and copied at once.
const BATCH: u64 = 64;
/// Fewer pages than this are made present by the copy itself.
const FEW: u64 = 8;
/// So many pages (4 MiB) are worth a thread.
const MANY: u64 = 1 << 10;

/// Whether what is looked for may be in a page's content. Asked by two threads.
pub type Seek<'a> = &'a (dyn Fn(&[u8]) -> bool + Sync);

/// Copies pages to where they belong. The pages (sorted) in which `seek` has found something; or one that is damaged, and nothing that
/// was to be filled is of use then.
pub fn fill(list: &[SlotRun], store: &PageStore, seek: Seek<'_>) -> Result<Vec<PageRun>, PageIndex> {
    let work = Work {
        pieces: list.iter().flat_map(pieces).collect(),
        store,
        seek,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let pages: u64 = list.iter().map(|run| run.pages.pages).sum();
    if pages < MANY {
        return work.run();
    }
    let (own, other) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("understudy-load".into());
        // If it cannot be had, this one does everything.
        let other = without_signals(|| thread.spawn_scoped(scope, || work.run()));
        let own = work.run();
        (own, other.ok().and_then(|other| other.join().ok()))
    });
    let found = [own?, other.unwrap_or(Ok(Vec::new()))?].concat();
    Ok(normalise(found))
}

/// Cut at multiples of [`PIECE`] pages.
fn pieces(run: &SlotRun) -> impl Iterator<Item = SlotRun> + use<> {
    cut(*run, |at| (at / PIECE + 1) * PIECE)
}

fn batches(piece: SlotRun) -> impl Iterator<Item = SlotRun> {
    cut(piece, |at| at + BATCH)
}

/// A run in parts, each of which goes from a page to the one that `end` says, if there are so many.
fn cut(run: SlotRun, end: impl Fn(u64) -> u64) -> impl Iterator<Item = SlotRun> {
    let (start, slot) = (run.pages.start.0, run.slot.0);
    let mut at = start;
    std::iter::from_fn(move || {
        let from = at;
        at = end(from).min(run.pages.end());
        (from < at).then(|| SlotRun {
            pages: PageRun::between(from, at),
            slot: Slot(slot + (from - start)),
        })
    })
}

struct Work<'a> {
    pieces: Vec<SlotRun>,
    store: &'a PageStore,
    seek: Seek<'a>,
    next: AtomicUsize,
    stop: AtomicBool,
}

// SAFETY: the store is only read, by threads that have ended when `fill` returns, and each piece is taken by one of them.
unsafe impl Sync for Work<'_> {}

impl Work<'_> {
    /// Takes pieces until there are no more, as [`fill`].
    fn run(&self) -> Result<Vec<PageRun>, PageIndex> {
        let mut found = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let Some(&piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            if piece.pages.pages >= FEW {
                make_present(piece.pages);
            }
            for batch in batches(piece) {
                let look = |page: PageIndex, content: &[u8]| {
                    if (self.seek)(content) {
                        push(&mut found, PageRun::between(page.0, page.0 + 1));
                    }
                };
                if let Some(damaged) = self.store.look_through(&batch, look) {
                    self.stop.store(true, Ordering::Relaxed);
                    return Err(damaged);
                }
                copy_in(&batch, self.store);
            }
        }
        Ok(found)
    }
}

/// Nothing is wrong if it cannot be done: whoever writes there makes it present as well.
fn make_present(pages: PageRun) {
    let range = pages.range();
    // SAFETY: populating makes pages present and does not change what they hold.
    let _ = unsafe {
        libc::madvise(
            range.start as *mut libc::c_void,
            range.len() as usize,
            libc::MADV_POPULATE_WRITE,
        )
    };
}

/// Copies pages to where they belong.
pub fn copy_in(run: &SlotRun, store: &PageStore) {
    let to = run.pages.start.addr() as *mut u8;
    let bytes = run.pages.pages as usize * PAGE_SIZE;
    // SAFETY: the pages belong to the user side, stand still and are opened for writing, or
    // belong to its stack; the slots lie in the arena outside of it.
    unsafe { to.copy_from_nonoverlapping(store.ptr(run.slot), bytes) };
}
