//! Deduplication: pages that are equal on two workers.
//!
//! Examples are tables that all workers have read, and vectors that all workers have gathered.
//!
//! Two pages count as equal if their numbers, checksums and [identities](identity) are equal.
//! Before a transfer, a worker sends these data to its buddy. The buddy searches its own image of
//! the epoch and answers with the pages that it has. These pages are not sent: the replica refers
//! to the slots of the buddy's own image.

#![allow(unsafe_code)]

use super::PAGE_SIZE;
use super::image_delta::{Image, SlotRun, merge, pages_of};
use super::pages::{self, PageRun};
use super::store::{PageStore, Slot};
use super::sums::identity;
use super::wire::WireError;
use bincode::config::standard;
use bincode::{Decode, Encode};

/// Pages of one worker in a query to its buddy.
#[derive(Debug, PartialEq, Eq, Encode, Decode)]
pub struct PageQuery {
    /// Sorted.
    pages: Vec<PageRun>,
    /// Checksum of each page.
    sums: Vec<u64>,
    /// Identities of the pages, two 64-bit words for each page.
    identities: Vec<u64>,
}

impl PageQuery {
    /// Creates a query for pages with stored checksums.
    ///
    /// `identities` has two 64-bit words for each page.
    pub fn new(runs: &[SlotRun], identities: Vec<u64>, store: &PageStore) -> PageQuery {
        PageQuery {
            pages: pages_of(runs),
            sums: store.sums(runs),
            identities,
        }
    }

    /// Encodes the query.
    pub fn encode(&self) -> Vec<u8> {
        bincode::encode_to_vec(self, standard()).expect("encoding into memory does not fail")
    }

    /// Decodes a query.
    ///
    /// # Errors
    /// Fails if the bytes are not a consistent query.
    pub fn decode(bytes: &[u8]) -> Result<PageQuery, WireError> {
        let (query, used): (PageQuery, usize) =
            bincode::decode_from_slice(bytes, standard()).map_err(WireError::Decode)?;
        let count = query.page_count() as usize;
        let has_all_sums =
            query.sums.len() == count && query.identities.len() == 2 * count && used == bytes.len();
        match has_all_sums && pages::is_list(&query.pages) {
            true => Ok(query),
            false => Err(WireError::Inconsistent(
                "a page query has unsorted pages or missing checksums",
            )),
        }
    }

    pub fn pages(&self) -> &[PageRun] {
        &self.pages
    }

    pub fn page_count(&self) -> u64 {
        pages::total(&self.pages)
    }

    /// Returns the slots in which an image has these pages with equal content.
    pub fn find_in(&self, image: &Image, store: &PageStore) -> Vec<SlotRun> {
        let mut found = Vec::new();
        // Index of the run's first page among all pages of the query.
        let mut run_index = 0;
        for queried in &self.pages {
            for stored in image.slots_of(&[*queried]) {
                let first = run_index + (stored.pages.start.0 - queried.start.0) as usize;
                for (index, own) in (first..).zip(single_pages(stored)) {
                    let expected = &self.identities[2 * index..2 * index + 2];
                    if store.sum(own.slot) == self.sums[index]
                        && identity(page(own.slot, store)) == *expected
                    {
                        push(&mut found, own);
                    }
                }
            }
            run_index += queried.pages as usize;
        }
        found
    }

    /// Encodes the answer: one bit for each page of the query.
    ///
    /// The bits of the pages in `found` are set.
    pub fn encode_answer(&self, found: &[SlotRun]) -> Vec<u8> {
        let mut bits = vec![0; answer_length(&self.pages)];
        let found = pages_of(found);
        let mut run_index = 0;
        for queried in &self.pages {
            for run in pages::within(&found, *queried) {
                let first = run_index + (run.start.0 - queried.start.0);
                (first..first + run.pages).for_each(|bit| bits[bit as usize / 8] |= 1 << (bit % 8));
            }
            run_index += queried.pages;
        }
        bits
    }
}

/// Returns the size in bytes of an answer about these pages.
pub fn answer_length(queried: &[PageRun]) -> usize {
    pages::total(queried).div_ceil(8) as usize
}

/// Returns the pages that are marked as found in an answer, sorted.
pub fn decode_answer(queried: &[PageRun], answer: &[u8]) -> Vec<PageRun> {
    let mut found = Vec::new();
    let pages = queried.iter().flat_map(|run| run.start.0..run.end());
    for (bit, page) in pages.enumerate() {
        if answer
            .get(bit / 8)
            .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
        {
            pages::push(&mut found, PageRun::between(page, page + 1));
        }
    }
    found
}

/// Selects at most `limit` of these pages, evenly spread.
pub fn sample(runs: &[SlotRun], limit: u64) -> Vec<SlotRun> {
    let count: u64 = runs.iter().map(|run| run.pages.pages).sum();
    let step = count.div_ceil(limit).max(1);
    // Indices among all pages: of the next page to select, and of the run's first page.
    let (mut next, mut run_index) = (0, 0);
    let mut selected = Vec::new();
    for run in runs {
        while next < run_index + run.pages.pages {
            let page = run.pages.start.0 + next - run_index;
            push(&mut selected, run.sub_run(page, page + 1));
            next += step;
        }
        run_index += run.pages.pages;
    }
    selected
}

impl Image {
    /// Replaces slots by slots of another image that contain byte-identical pages.
    ///
    /// The replaced slots are released. Returns the number of replaced pages.
    pub fn share_equal_pages(&mut self, other: &Image, store: &mut PageStore) -> u64 {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for run in other.slots_of(&pages_of(self.runs())) {
            for own_page in self
                .slots_of(&[run.pages])
                .into_iter()
                .flat_map(single_pages)
            {
                let other_page = run.sub_run(own_page.pages.start.0, own_page.pages.end());
                let is_equal = || page(own_page.slot, store) == page(other_page.slot, store);
                if own_page.slot != other_page.slot
                    && store.sum(own_page.slot) == store.sum(other_page.slot)
                    && is_equal()
                {
                    push(&mut own, own_page);
                    push(&mut others, other_page);
                }
            }
        }
        let pages = pages_of(&own);
        store.share(others.iter().map(|run| run.extent()));
        store.release(own.into_iter().map(SlotRun::extent));
        let rest = pages::subtract(&pages_of(self.runs()), &pages);
        self.set_runs(merge(&self.slots_of(&rest), &others));
        pages::total(&pages)
    }
}

/// Divides a run into runs of one page.
fn single_pages(run: SlotRun) -> impl Iterator<Item = SlotRun> {
    (run.pages.start.0..run.pages.end()).map(move |page| run.sub_run(page, page + 1))
}

/// Appends a run to a list, joined with the last run if possible.
fn push(list: &mut Vec<SlotRun>, run: SlotRun) {
    match list.last_mut() {
        Some(last) if run.continues(*last) => last.pages.pages += run.pages.pages,
        _ => list.push(run),
    }
}

/// Returns the content of a slot.
fn page(slot: Slot, store: &PageStore) -> &[u8] {
    // SAFETY: the callers pass slots of images, which are allocated and filled. A page is not
    // written until its slot is freed, which needs a mutable borrow of the store.
    unsafe { std::slice::from_raw_parts(store.ptr(slot), PAGE_SIZE) }
}
