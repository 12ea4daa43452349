//! Checksums of pages: made once, when a page has been captured, and kept with every copy of it
//! from then on.
//!
//! Nobody makes the sum of a copy anew: it is sent along with the copy, so that whoever loads one
//! finds any bit that has changed since the capture, wherever that was.
//!
//! Summing reads every page once more. A thread does it ([`super::helper`]), beside the transfer
//! and the program.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::epoch::SlotRun;
use super::runs::PageIndex;
use super::store::{PageStore, Slot};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The checksum of a page. It is that of its place, too: a page put in another one's place is as
/// bad as a damaged one.
pub fn of_page(page: PageIndex, content: &[u8]) -> u64 {
    xxh3_64(content) ^ page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A sum by which equal pages of two processes are told, whatever their numbers: 128 bits, of which
/// nobody expects to see two different pages with the same. The lower half comes first.
pub fn identity(content: &[u8]) -> [u64; 2] {
    let sum = xxh3_128(content);
    [sum as u64, (sum >> 64) as u64]
}

/// Consecutive pages, and where a copy of them is.
struct Piece {
    first: PageIndex,
    pages: u64,
    copy: *const u8,
}

// SAFETY: only read, while nobody writes there, as `work` demands.
unsafe impl Send for Piece {}

impl Piece {
    fn of(run: &SlotRun, store: &PageStore) -> Piece {
        Piece {
            first: run.pages.start,
            pages: run.pages.pages,
            copy: store.ptr(run.slot),
        }
    }

    fn contents(&self) -> impl Iterator<Item = (PageIndex, &[u8])> {
        // SAFETY: allocated slots, which nobody writes from when they are filled until they are
        // freed.
        let copy =
            unsafe { std::slice::from_raw_parts(self.copy, self.pages as usize * PAGE_SIZE) };
        let pages = (self.first.0..).map(PageIndex);
        pages.zip(copy.chunks_exact(PAGE_SIZE))
    }
}

fn sums_of(pieces: &[Piece]) -> Vec<u64> {
    let contents = pieces.iter().flat_map(Piece::contents);
    contents
        .map(|(page, content)| of_page(page, content))
        .collect()
}

fn identities_of(pieces: &[Piece]) -> Vec<u64> {
    let contents = pieces.iter().flat_map(Piece::contents);
    contents
        .flat_map(|(_, content)| identity(content))
        .collect()
}

fn slots(run: &SlotRun) -> impl Iterator<Item = Slot> {
    (run.slot.0..run.slot.0 + run.pages.pages).map(Slot)
}

impl PageStore {
    /// The checksums of these pages' copies, one after the other.
    pub fn sums(&self, runs: &[SlotRun]) -> Vec<u64> {
        runs.iter()
            .flat_map(slots)
            .map(|slot| self.sum(slot))
            .collect()
    }

    /// The identities of these pages, two words for each, as their copies are now.
    pub fn identities(&self, runs: &[SlotRun]) -> Vec<u64> {
        let pieces: Vec<Piece> = runs.iter().map(|run| Piece::of(run, self)).collect();
        identities_of(&pieces)
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
        runs.iter()
            .find_map(|run| self.look_through(run, |_, _| ()))
    }

    /// The same of consecutive pages; `look` sees each of those before it, while it is in the
    /// processor's cache.
    pub fn look_through(
        &self,
        run: &SlotRun,
        mut look: impl FnMut(PageIndex, &[u8]),
    ) -> Option<PageIndex> {
        let piece = Piece::of(run, self);
        for ((page, content), slot) in piece.contents().zip(slots(run)) {
            if of_page(page, content) != self.sum(slot) {
                return Some(page);
            }
            look(page, content);
        }
        None
    }
}

/// The work of making the checksums of these copies, which must stay as they are until it is done.
pub fn work(runs: &[SlotRun], store: &PageStore) -> impl FnOnce() -> Vec<u64> + Send + use<> {
    let pieces: Vec<Piece> = runs.iter().map(|run| Piece::of(run, store)).collect();
    move || sums_of(&pieces)
}

/// The work of [`PageStore::identities`], as [`work`].
pub fn identify(runs: &[SlotRun], store: &PageStore) -> impl FnOnce() -> Vec<u64> + Send + use<> {
    let pieces: Vec<Piece> = runs.iter().map(|run| Piece::of(run, store)).collect();
    move || identities_of(&pieces)
}
