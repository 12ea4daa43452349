//! Checksums of pages, computed once after the capture and stored with every copy.
//!
//! The checksum of a copy is never replaced by a new computation: it is sent and stored together
//! with the copy. So a load detects any bit that has changed since the capture, whether in memory,
//! in a transfer or on disk.
//!
//! Computing the checksums reads every page once more. The helper thread ([`super::helper`])
//! computes them, in parallel with the transfer and the program.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::image_delta::SlotRun;
use super::pages::PageIndex;
use super::store::{PageStore, Slot};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Returns the checksum of a page, which depends on its content and its number.
///
/// Because of the number, a load also detects a correct copy that is stored under another page's
/// number.
pub fn page_sum(page: PageIndex, content: &[u8]) -> u64 {
    xxh3_64(content) ^ page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns a 128-bit hash of a page's content, independent of the page number.
///
/// Pages of two processes with equal hashes count as equal. The first element is the lower half.
pub fn identity(content: &[u8]) -> [u64; 2] {
    let sum = xxh3_128(content);
    [sum as u64, (sum >> 64) as u64]
}

/// Consecutive pages and the address of their copies.
struct CopiedPages {
    first: PageIndex,
    pages: u64,
    copy: *const u8,
}

// SAFETY: `sums_work` and `identities_work` require that the copies are not written until the
// computation is done, and the computation only reads the copies.
unsafe impl Send for CopiedPages {}

impl CopiedPages {
    fn new(run: &SlotRun, store: &PageStore) -> CopiedPages {
        CopiedPages {
            first: run.pages.start,
            pages: run.pages.pages,
            copy: store.ptr(run.slot),
        }
    }

    fn contents(&self) -> impl Iterator<Item = (PageIndex, &[u8])> {
        // SAFETY: the slots are allocated. They are not written between being filled and being
        // freed.
        let copy =
            unsafe { std::slice::from_raw_parts(self.copy, self.pages as usize * PAGE_SIZE) };
        let pages = (self.first.0..).map(PageIndex);
        pages.zip(copy.chunks_exact(PAGE_SIZE))
    }
}

fn sums_of(pieces: &[CopiedPages]) -> Vec<u64> {
    let contents = pieces.iter().flat_map(CopiedPages::contents);
    contents
        .map(|(page, content)| page_sum(page, content))
        .collect()
}

fn identities_of(pieces: &[CopiedPages]) -> Vec<u64> {
    let contents = pieces.iter().flat_map(CopiedPages::contents);
    contents
        .flat_map(|(_, content)| identity(content))
        .collect()
}

fn slots(run: &SlotRun) -> impl Iterator<Item = Slot> {
    (run.slot.0..run.slot.0 + run.pages.pages).map(Slot)
}

impl PageStore {
    /// Returns the checksums of these pages' copies in order.
    pub fn sums(&self, runs: &[SlotRun]) -> Vec<u64> {
        runs.iter()
            .flat_map(slots)
            .map(|slot| self.sum(slot))
            .collect()
    }

    /// Computes the identities of these pages from their copies, two words for each.
    pub fn identities(&self, runs: &[SlotRun]) -> Vec<u64> {
        let pieces: Vec<CopiedPages> = runs.iter().map(|run| CopiedPages::new(run, self)).collect();
        identities_of(&pieces)
    }

    /// Stores the checksums of copies, in order.
    pub fn set_sums(&mut self, runs: &[SlotRun], sums: &[u64]) {
        for (slot, &sum) in runs.iter().flat_map(slots).zip(sums) {
            self.set_sum(slot, sum);
        }
    }

    /// Computes and stores the checksums of new copies.
    pub fn seal(&mut self, runs: &[SlotRun]) {
        let pieces: Vec<CopiedPages> = runs.iter().map(|run| CopiedPages::new(run, self)).collect();
        self.set_sums(runs, &sums_of(&pieces));
    }

    /// Returns the first of these pages whose copy does not match its checksum.
    pub fn first_damaged(&self, runs: &[SlotRun]) -> Option<PageIndex> {
        runs.iter().find_map(|run| self.verify_each(run, |_, _| ()))
    }

    /// Returns the first damaged page of a run.
    ///
    /// `visit` is called for each correct page before the damaged one, while the page is in the
    /// processor's cache.
    pub fn verify_each(
        &self,
        run: &SlotRun,
        mut visit: impl FnMut(PageIndex, &[u8]),
    ) -> Option<PageIndex> {
        let piece = CopiedPages::new(run, self);
        for ((page, content), slot) in piece.contents().zip(slots(run)) {
            if page_sum(page, content) != self.sum(slot) {
                return Some(page);
            }
            visit(page, content);
        }
        None
    }
}

/// Returns the computation of these copies' checksums.
///
/// The copies must not change until the computation is done.
pub fn sums_work(runs: &[SlotRun], store: &PageStore) -> impl FnOnce() -> Vec<u64> + Send + use<> {
    let pieces: Vec<CopiedPages> = runs
        .iter()
        .map(|run| CopiedPages::new(run, store))
        .collect();
    move || sums_of(&pieces)
}

/// Returns the computation of [`PageStore::identities`], under the conditions of [`sums_work`].
pub fn identities_work(
    runs: &[SlotRun],
    store: &PageStore,
) -> impl FnOnce() -> Vec<u64> + Send + use<> {
    let pieces: Vec<CopiedPages> = runs
        .iter()
        .map(|run| CopiedPages::new(run, store))
        .collect();
    move || identities_of(&pieces)
}
