//! Slots of pages: the committed [`Image`], and the [`Delta`] to the next one.

use super::PAGE_SIZE;
use super::absent_pages::{self, PageSums};
use super::pages::{self, PageIndex, PageRun};
use super::store::{Extent, PageStore, Slot, StoreError};
use bincode::{Decode, Encode};
use understudy_numbers::Epoch;

/// Consecutive pages stored in consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SlotRun {
    pub pages: PageRun,
    /// Slot of the first page.
    pub slot: Slot,
}

impl SlotRun {
    pub fn extent(self) -> Extent {
        Extent {
            first: self.slot,
            len: self.pages.pages,
        }
    }

    /// Returns the pages `start..end`, which must lie inside, with their slots.
    pub(super) fn sub_run(self, start: u64, end: u64) -> Self {
        Self {
            pages: PageRun::between(start, end),
            slot: Slot(self.slot.0 + (start - self.pages.start.0)),
        }
    }

    /// True if pages and slots follow those of `before` directly.
    pub(super) fn continues(self, before: Self) -> bool {
        before.pages.end() == self.pages.start.0
            && before.slot.0 + before.pages.pages == self.slot.0
    }
}

/// Pages of one committed epoch and their slots.
///
/// A page outside of the image has the content that its mapping provides: zeros or the file's.
#[derive(Debug, Default, Encode, Decode)]
pub struct Image {
    epoch: Epoch,
    runs: Vec<SlotRun>,
    /// Pages that are not stored, because a replay or a file restores them.
    ///
    /// Disjoint from `runs`.
    absent: Vec<PageSums>,
}

/// Changes from the image's epoch to the next.
#[derive(Debug, PartialEq, Eq)]
pub struct Delta {
    pub(super) base: Epoch,
    pub(super) epoch: Epoch,
    /// Changed pages with their new content, sorted by page.
    pub(super) runs: Vec<SlotRun>,
    /// Pages (sorted) that have only the content of their mapping again: zeros or the file's.
    pub(super) dropped: Vec<PageRun>,
}

/// Error: the delta does not start from the image's epoch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the delta from checkpoint {base} cannot be applied to the image of checkpoint {image}")]
pub struct WrongBase {
    /// Epoch from which the delta starts.
    pub base: Epoch,
    /// Epoch of the image.
    pub image: Epoch,
}

impl Image {
    /// Returns the empty image before the first epoch.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn from_parts(epoch: Epoch, runs: Vec<SlotRun>) -> Self {
        Self {
            epoch,
            runs,
            absent: Vec::new(),
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the stored pages and their slots, sorted by page.
    pub fn runs(&self) -> &[SlotRun] {
        &self.runs
    }

    /// Returns the pages that are not stored and their checksums, sorted.
    pub fn absent(&self) -> &[PageSums] {
        &self.absent
    }

    /// Returns all pages, sorted, stored or not.
    pub fn pages(&self) -> Vec<PageRun> {
        pages::union(&pages_of(&self.runs), &absent_pages::pages_of(&self.absent))
    }

    /// Returns the number of stored pages.
    pub fn page_count(&self) -> u64 {
        self.runs.iter().map(|run| run.pages.pages).sum()
    }

    /// Iterates over the runs: first page, number of pages, and address of the copies.
    pub fn extents<'a>(
        &'a self,
        store: &'a PageStore,
    ) -> impl Iterator<Item = (PageIndex, u64, *const u8)> + 'a {
        let extent = |run: &SlotRun| (run.pages.start, run.pages.pages, store.ptr(run.slot) as _);
        self.runs.iter().map(extent)
    }

    /// Returns those of the given pages (sorted) that are stored, with their slots.
    pub fn slots_of(&self, pages: &[PageRun]) -> Vec<SlotRun> {
        select_pages(&self.runs, pages)
    }

    pub(super) fn set_runs(&mut self, runs: Vec<SlotRun>) {
        self.runs = runs;
    }

    /// Commits a delta and releases the slots that it replaces.
    ///
    /// # Errors
    /// Fails if the delta does not start from this image's epoch. The error contains the delta.
    pub fn apply(&mut self, delta: Delta, store: &mut PageStore) -> Result<(), (WrongBase, Delta)> {
        if delta.base != self.epoch {
            let error = WrongBase {
                base: delta.base,
                image: self.epoch,
            };
            return Err((error, delta));
        }
        store.release(
            self.slots_of(&delta.changed_or_dropped())
                .into_iter()
                .map(SlotRun::extent),
        );
        *self = self.after(&delta);
        Ok(())
    }

    /// Returns the image after a delta; unchanged pages keep their slots.
    pub fn after(&self, delta: &Delta) -> Image {
        let replaced = delta.changed_or_dropped();
        let unchanged = pages::subtract(&self.pages(), &replaced);
        Image {
            epoch: delta.epoch,
            runs: merge(&self.slots_of(&unchanged), &delta.runs),
            absent: absent_pages::without(&self.absent, &replaced),
        }
    }

    /// Elides stored pages whose checksums equal those in `provided`, and releases their slots.
    ///
    /// `provided` (sorted) are pages that a replay or a file restores.
    pub fn elide_equal(&mut self, provided: &[PageSums], store: &mut PageStore) {
        let candidates: Vec<PageRun> = provided.iter().map(PageSums::pages).collect();
        let mut provided = provided.iter().peekable();
        let mut equal: Vec<PageSums> = Vec::new();
        for stored in self.slots_of(&candidates) {
            let first = stored.pages.start.0;
            while provided.next_if(|run| run.pages().end() <= first).is_some() {}
            let Some(run) = provided.peek() else { break };
            let expected = &run.sums[(first - run.first.0) as usize..];
            for ((page, sum), expected) in (first..).zip(store.sums(&[stored])).zip(expected) {
                if sum == *expected {
                    absent_pages::push(&mut equal, PageIndex(page), &[sum]);
                }
            }
        }
        let pages = absent_pages::pages_of(&equal);
        store.release(self.slots_of(&pages).into_iter().map(SlotRun::extent));
        self.runs = self.slots_of(&pages::subtract(&pages_of(&self.runs), &pages));
        self.add_absent(&equal);
    }

    /// Returns this image without these pages (sorted), of which only the checksums remain.
    pub fn without_pages(&self, pages: &[PageRun], store: &PageStore) -> Image {
        let elided = self.slots_of(pages);
        let mut absent = Vec::new();
        for run in &elided {
            absent_pages::push(&mut absent, run.pages.start, &store.sums(&[*run]));
        }
        let mut image = Image {
            epoch: self.epoch,
            runs: self.slots_of(&pages::subtract(&pages_of(&self.runs), pages)),
            absent: self.absent.clone(),
        };
        image.add_absent(&absent);
        image
    }

    /// Elides these pages (sorted), of which only the checksums remain, and releases their slots.
    pub fn elide(&mut self, pages: &[PageRun], store: &mut PageStore) {
        let image = self.without_pages(pages, store);
        store.release(self.slots_of(pages).into_iter().map(SlotRun::extent));
        *self = image;
    }

    /// Adds pages to the image, which stores only their checksums.
    pub fn add_absent(&mut self, pages: &[PageSums]) {
        let mut all = [&self.absent, pages].concat();
        all.sort_unstable_by_key(|run| run.first);
        self.absent.clear();
        all.iter()
            .for_each(|run| absent_pages::push(&mut self.absent, run.first, &run.sums));
    }

    /// Stores pages (sorted) that were absent, from their concatenated `content` and checksums.
    ///
    /// # Errors
    /// Fails if there is no room; no page is added then.
    pub fn store_absent(
        &mut self,
        pages: &[PageRun],
        content: &[u8],
        sums: &[u64],
        store: &mut PageStore,
    ) -> Result<(), StoreError> {
        let extents = store.alloc(pages::total(pages))?;
        let added = lay_out(pages, &extents);
        let mut rest = content;
        for run in &added {
            let (bytes, others) = rest.split_at(run.pages.pages as usize * PAGE_SIZE);
            store.fill(run.slot, bytes);
            rest = others;
        }
        store.set_sums(&added, sums);
        self.runs = merge(&self.runs, &added);
        self.absent = absent_pages::without(&self.absent, pages);
        Ok(())
    }

    /// Releases every slot; afterwards the image is empty and of epoch 0.
    pub fn clear(&mut self, store: &mut PageStore) {
        self.absent.clear();
        store.release(self.runs.drain(..).map(SlotRun::extent));
        self.epoch = Epoch::default();
    }
}

impl Delta {
    /// Returns the epoch to which the delta leads.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the epoch from which the delta starts.
    pub fn base(&self) -> Epoch {
        self.base
    }

    /// Returns the changed pages and their slots, sorted by page.
    pub fn runs(&self) -> &[SlotRun] {
        &self.runs
    }

    /// Returns the changed pages, sorted.
    pub fn pages(&self) -> Vec<PageRun> {
        pages_of(&self.runs)
    }

    /// Returns the pages (sorted) that have only the content of their mapping again.
    pub fn dropped(&self) -> &[PageRun] {
        &self.dropped
    }

    /// Returns all pages that the delta changes or drops, sorted.
    pub(super) fn changed_or_dropped(&self) -> Vec<PageRun> {
        pages::union(&pages_of(&self.runs), &self.dropped)
    }

    /// Returns the number of changed pages.
    pub fn page_count(&self) -> u64 {
        self.runs.iter().map(|run| run.pages.pages).sum()
    }

    /// Releases the slots without a commit.
    ///
    /// The rank that captured the delta must use [`super::track::Tracker::abandon`] instead, or the
    /// changes are missing in its next delta.
    pub fn free(self, store: &mut PageStore) {
        store.release(self.runs.into_iter().map(SlotRun::extent));
    }
}

/// Assigns the pages in order to the slots of the extents in order.
///
/// The extents must contain exactly as many slots as there are pages.
pub(super) fn lay_out(pages: &[PageRun], extents: &[Extent]) -> Vec<SlotRun> {
    let mut out = Vec::with_capacity(pages.len() + extents.len());
    let mut extents = extents.iter().copied();
    // Remaining slots of the current extent.
    let mut unused = Extent {
        first: Slot(0),
        len: 0,
    };
    for run in pages {
        let mut page = run.start.0;
        while page < run.end() {
            if unused.len == 0 {
                unused = extents.next().expect("as many slots as pages");
                continue;
            }
            let n = unused.len.min(run.end() - page);
            out.push(SlotRun {
                pages: PageRun::between(page, page + n),
                slot: unused.first,
            });
            unused.first.0 += n;
            unused.len -= n;
            page += n;
        }
    }
    out
}

/// Returns the pages of a list.
pub(super) fn pages_of(list: &[SlotRun]) -> Vec<PageRun> {
    let mut out = Vec::with_capacity(list.len());
    for run in list {
        pages::push(&mut out, run.pages);
    }
    out
}

/// Restricts sorted runs to these pages (sorted).
pub(super) fn select_pages(list: &[SlotRun], pages: &[PageRun]) -> Vec<SlotRun> {
    // Binary search, so that a query for one page does not scan all runs before it.
    let first = pages.first().map_or(0, |first| {
        list.partition_point(|run| run.pages.end() <= first.start.0)
    });
    let mut out = Vec::new();
    let (mut i, mut j) = (first, 0);
    while i < list.len() && j < pages.len() {
        let (run, page) = (list[i], pages[j]);
        let start = run.pages.start.0.max(page.start.0);
        let end = run.pages.end().min(page.end());
        if start < end {
            out.push(run.sub_run(start, end));
        }
        if run.pages.end() <= page.end() {
            i += 1;
        } else {
            j += 1;
        }
    }
    out
}

/// Merges two sorted lists of distinct pages.
pub(super) fn merge(a: &[SlotRun], b: &[SlotRun]) -> Vec<SlotRun> {
    let mut out: Vec<SlotRun> = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let from_a = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) => x.pages.start < y.pages.start,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return out,
        };
        let Some(&run) = (if from_a { a.next() } else { b.next() }) else {
            return out;
        };
        match out.last_mut() {
            Some(last) if run.continues(*last) => last.pages.pages += run.pages.pages,
            _ => out.push(run),
        }
    }
}
