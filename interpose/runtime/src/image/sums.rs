//! Checksums of pages: made once, when a page has been captured, and kept with every copy of it from then on.
//!
//! Nobody makes the sum of a copy anew: it is sent along with the copy, so that whoever loads one finds any bit that has
//! changed since the capture, wherever that was.
//!
//! Summing reads every page once more. A thread does it ([`Summer`]), beside the transfer and the program.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::epoch::SlotRun;
use super::runs::PageIndex;
use super::store::{PageStore, Slot};
use super::threads::without_signals;
use std::sync::mpsc::{Receiver, Sender, channel};
use xxhash_rust::xxh3::xxh3_64;

/// So few pages (128 KiB) are summed sooner than a thread is woken.
const FEW: u64 = 32;

/// The checksum of a page. It is that of its place, too: a page put in another one's place is as bad as a damaged one.
pub fn of_page(page: PageIndex, content: &[u8]) -> u64 {
    xxh3_64(content) ^ page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Consecutive pages, and where a copy of them is.
struct Piece {
    first: PageIndex,
    pages: u64,
    copy: *const u8,
}

// SAFETY: only read, while nobody writes there, as `Summer::start` demands.
unsafe impl Send for Piece {}

impl Piece {
    fn of(run: &SlotRun, store: &PageStore) -> Piece {
        Piece {
            first: run.pages.start,
            pages: run.pages.pages,
            copy: store.ptr(run.slot),
        }
    }

    fn sums(&self) -> impl Iterator<Item = (PageIndex, u64)> {
        // SAFETY: allocated slots, which nobody writes from when they are filled until they are freed.
        let copy = unsafe { std::slice::from_raw_parts(self.copy, self.pages as usize * PAGE_SIZE) };
        let first = self.first.0;
        let each = move |(index, content)| {
            let page = PageIndex(first + index as u64);
            (page, of_page(page, content))
        };
        copy.chunks_exact(PAGE_SIZE).enumerate().map(each)
    }
}

fn sums_of(pieces: &[Piece]) -> Vec<u64> {
    pieces.iter().flat_map(Piece::sums).map(|(_, sum)| sum).collect()
}

fn slots(run: &SlotRun) -> impl Iterator<Item = Slot> {
    (run.slot.0..run.slot.0 + run.pages.pages).map(Slot)
}

impl PageStore {
    /// The checksums of these pages' copies, one after the other.
    pub fn sums(&self, runs: &[SlotRun]) -> Vec<u64> {
        runs.iter().flat_map(slots).map(|slot| self.sum(slot)).collect()
    }

    /// Notes checksums that came with copies.
    pub fn note_sums(&mut self, runs: &[SlotRun], sums: &[u64]) {
        for (slot, &sum) in runs.iter().flat_map(slots).zip(sums) {
            self.set_sum(slot, sum);
        }
    }

    /// Makes the checksums of copies that are known to be good.
    pub fn seal(&mut self, runs: &[SlotRun]) {
        let pieces: Vec<Piece> = runs.iter().map(|run| Piece::of(run, self)).collect();
        self.note_sums(runs, &sums_of(&pieces));
    }

    /// The first of these pages whose copy has not the checksum that it was captured with.
    pub fn damaged(&self, runs: &[SlotRun]) -> Option<PageIndex> {
        let wrong = |run: &SlotRun| {
            let piece = Piece::of(run, self);
            let mut sums = piece.sums().zip(slots(run));
            let wrong = sums.find(|&((_, sum), slot)| sum != self.sum(slot));
            wrong.map(|((page, _), _)| page)
        };
        runs.iter().find_map(wrong)
    }
}

/// A thread that sums, one list of copies at a time.
#[derive(Debug)]
pub struct Summer {
    jobs: Sender<Vec<Piece>>,
    done: Receiver<Vec<u64>>,
}

/// A list of copies whose checksums are being made.
#[derive(Debug)]
pub struct Summing {
    runs: Vec<SlotRun>,
    sums: Option<Vec<u64>>,
}

impl Summer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn new() -> std::io::Result<Self> {
        let (jobs, todo) = channel::<Vec<Piece>>();
        let (tell, done) = channel();
        let work = move || {
            for pieces in todo {
                if tell.send(sums_of(&pieces)).is_err() {
                    return;
                }
            }
        };
        without_signals(|| std::thread::Builder::new().name("understudy-sums".into()).spawn(work))?;
        Ok(Self { jobs, done })
    }

    /// Begins with these copies. Until [`Summer::end`] they must stay as they are, and nothing else may be started.
    pub fn start(&self, runs: &[SlotRun], store: &PageStore) -> Summing {
        let pieces: Vec<Piece> = runs.iter().map(|run| Piece::of(run, store)).collect();
        let is_little = runs.iter().map(|run| run.pages.pages).sum::<u64>() <= FEW;
        let sums = match is_little {
            true => Some(sums_of(&pieces)),
            // A thread that has ended leaves the work to this one.
            false => self.jobs.send(pieces).err().map(|unsent| sums_of(&unsent.0)),
        };
        Summing {
            runs: runs.to_vec(),
            sums,
        }
    }

    /// Whether the checksums are there.
    pub fn is_over(&self, summing: &mut Summing) -> bool {
        if summing.sums.is_none() {
            summing.sums = self.done.try_recv().ok();
        }
        summing.sums.is_some()
    }

    /// Waits for the checksums, and notes them in the store.
    pub fn end(&self, summing: Summing, store: &mut PageStore) -> Vec<u64> {
        match summing.sums.or_else(|| self.done.recv().ok()) {
            Some(sums) => store.note_sums(&summing.runs, &sums),
            None => store.seal(&summing.runs),
        }
        store.sums(&summing.runs)
    }
}
