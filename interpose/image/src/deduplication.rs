//! Deduplication: pages that are equal on two workers.
//!
//! Programs have tables that all workers have read, and vectors that all workers have gathered.
//!
//! A page counts as equal to another worker's if its number, its checksum and its [`identity`] are
//! equal. The buddy searches its own image of that epoch for such pages. Its copy then refers
//! to the slots found there.

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
    /// Identity of each page, two words for each.
    identities: Vec<u64>,
}

impl PageQuery {
    /// Creates a query for pages with stored checksums; `identities` has two words per page.
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
    /// If the bytes are not a consistent query.
    pub fn decode(bytes: &[u8]) -> Result<PageQuery, WireError> {
        let (wanted, used): (PageQuery, usize) =
            bincode::decode_from_slice(bytes, standard()).map_err(WireError::Decode)?;
        let count = wanted.page_count() as usize;
        let adds_up = wanted.sums.len() == count
            && wanted.identities.len() == 2 * count
            && used == bytes.len();
        match adds_up && pages::is_list(&wanted.pages) {
            true => Ok(wanted),
            false => Err(WireError::Inconsistent("a question does not add up")),
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
        let mut at = 0;
        for asked in &self.pages {
            for held in image.slots_of(&[*asked]) {
                let first = at + (held.pages.start.0 - asked.start.0) as usize;
                for (index, one) in (first..).zip(single_pages(held)) {
                    let expected = &self.identities[2 * index..2 * index + 2];
                    if store.sum(one.slot) == self.sums[index]
                        && identity(page(one.slot, store)) == *expected
                    {
                        push(&mut found, one);
                    }
                }
            }
            at += asked.pages as usize;
        }
        found
    }

    /// Encodes which pages were found, as one bit for each page of the query.
    pub fn encode_answer(&self, found: &[SlotRun]) -> Vec<u8> {
        let mut bits = vec![0; answer_length(&self.pages)];
        let found = pages_of(found);
        let mut at = 0;
        for asked in &self.pages {
            for part in pages::within(&found, *asked) {
                let first = at + (part.start.0 - asked.start.0);
                (first..first + part.pages)
                    .for_each(|bit| bits[bit as usize / 8] |= 1 << (bit % 8));
            }
            at += asked.pages;
        }
        bits
    }
}

/// Returns the size in bytes of an answer about these pages.
pub fn answer_length(asked: &[PageRun]) -> usize {
    pages::total(asked).div_ceil(8) as usize
}

/// Returns the pages that are marked as found in an answer, sorted.
pub fn decode_answer(asked: &[PageRun], answer: &[u8]) -> Vec<PageRun> {
    let mut found = Vec::new();
    let pages = asked.iter().flat_map(|run| run.start.0..run.end());
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

/// Selects at most `most` of these pages, evenly spread.
pub fn sample(runs: &[SlotRun], most: u64) -> Vec<SlotRun> {
    let count: u64 = runs.iter().map(|run| run.pages.pages).sum();
    let step = count.div_ceil(most).max(1);
    let (mut next, mut passed) = (0, 0);
    let mut chosen = Vec::new();
    for run in runs {
        while next < passed + run.pages.pages {
            let page = run.pages.start.0 + next - passed;
            push(&mut chosen, run.part(page, page + 1));
            next += step;
        }
        passed += run.pages.pages;
    }
    chosen
}

impl Image {
    /// Replaces own slots by those of another image where pages are byte-identical.
    ///
    /// The replaced slots are released. Returns the number of replaced pages.
    pub fn share_equal_pages(&mut self, other: &Image, store: &mut PageStore) -> u64 {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for held in other.slots_of(&pages_of(self.runs())) {
            for mine in self
                .slots_of(&[held.pages])
                .into_iter()
                .flat_map(single_pages)
            {
                let theirs = held.part(mine.pages.start.0, mine.pages.end());
                let is_same = || page(mine.slot, store) == page(theirs.slot, store);
                if mine.slot != theirs.slot
                    && store.sum(mine.slot) == store.sum(theirs.slot)
                    && is_same()
                {
                    push(&mut own, mine);
                    push(&mut others, theirs);
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

/// Iterates over the pages of a run.
fn single_pages(run: SlotRun) -> impl Iterator<Item = SlotRun> {
    (run.pages.start.0..run.pages.end()).map(move |page| run.part(page, page + 1))
}

fn push(list: &mut Vec<SlotRun>, run: SlotRun) {
    match list.last_mut() {
        Some(last) if run.continues(*last) => last.pages.pages += run.pages.pages,
        _ => list.push(run),
    }
}

fn page(slot: Slot, store: &PageStore) -> &[u8] {
    // SAFETY: an allocated slot, which is not written between being filled and being freed. The
    // store is borrowed while the slice exists.
    unsafe { std::slice::from_raw_parts(store.ptr(slot), PAGE_SIZE) }
}
