//! Committed replica of a rank: its pages and its other state, with checksums.
#![allow(unsafe_code)]

use super::Script;
use understudy_image::epoch::Image;
use understudy_image::store::PageStore;
use understudy_image::{PAGE_SIZE, epoch::SlotRun};
use xxhash_rust::xxh3::xxh3_64;

/// Encoded [`super::Saved`] of a rank.
#[derive(Clone, Default, bincode::Encode, bincode::Decode)]
pub struct State {
    pub bytes: Vec<u8>,
    /// Checksum of the bytes at the time of encoding.
    pub sum: u64,
}

impl State {
    /// Creates the state from bytes that were just encoded.
    pub fn new(bytes: Vec<u8>) -> State {
        let sum = xxh3_64(&bytes);
        State { bytes, sum }
    }

    /// True if the bytes are unchanged.
    pub fn is_whole(&self) -> bool {
        xxh3_64(&self.bytes) == self.sum
    }
}

/// Committed replica of a rank.
#[derive(Default, bincode::Encode, bincode::Decode)]
pub struct Copy {
    pub image: Image,
    pub state: State,
    /// Replay plan for pages that the image does not contain.
    pub script: Option<Script>,
}

impl Copy {
    /// Replaces this replica by another one.
    pub fn replace(&mut self, other: Copy, store: &mut PageStore) {
        self.image.clear(store);
        *self = other;
    }

    /// Changes a bit outside of the pages, for tests.
    pub fn damage_state(&mut self) {
        if let Some(byte) = self.state.bytes.last_mut() {
            *byte ^= 1;
        }
    }

    /// Changes a bit of every page, or of one in the middle, for tests.
    pub fn damage_pages(&mut self, every: bool, store: &PageStore) {
        let runs = self.image.runs();
        let slots = |run: &SlotRun| run.slot.0..run.slot.0 + run.pages.pages;
        let middle = &runs[runs.len() / 2..];
        let all = if every {
            runs
        } else {
            &middle[..middle.len().min(1)]
        };
        for slot in all
            .iter()
            .flat_map(slots)
            .take(if every { usize::MAX } else { 1 })
        {
            let page = store.ptr(understudy_image::store::Slot(slot));
            // SAFETY: an allocated slot; a pending checkpoint uses other slots.
            unsafe { *page.add(PAGE_SIZE / 3) ^= 4 };
        }
    }
}
