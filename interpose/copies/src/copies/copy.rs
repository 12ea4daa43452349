//! A committed copy of a rank: its pages and the rest of its state, with checksums.
#![allow(unsafe_code)]

use super::Script;
use understudy_image::epoch::Image;
use understudy_image::store::PageStore;
use understudy_image::{PAGE_SIZE, epoch::SlotRun};
use xxhash_rust::xxh3::xxh3_64;

/// The encoded [`super::Saved`] of a rank.
#[derive(Clone, Default, bincode::Encode, bincode::Decode)]
pub struct State {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their checksum when they were encoded.
    pub sum: u64,
}

impl State {
    /// The state that was just encoded.
    pub fn new(bytes: Vec<u8>) -> State {
        let sum = xxh3_64(&bytes);
        State { bytes, sum }
    }

    /// Whether it is still what it was.
    pub fn is_whole(&self) -> bool {
        xxh3_64(&self.bytes) == self.sum
    }
}

/// A committed copy of a rank.
#[derive(Default, bincode::Encode, bincode::Decode)]
pub struct Copy {
    /// The pages.
    pub image: Image,
    pub state: State,
    /// How pages can be rebuilt that the image does not keep.
    pub script: Option<Script>,
}

impl Copy {
    /// Puts another one in its place.
    pub fn replace(&mut self, other: Copy, store: &mut PageStore) {
        self.image.clear(store);
        *self = other;
    }

    /// For tests: changes a bit of what is not in the pages.
    pub fn damage_state(&mut self) {
        if let Some(byte) = self.state.bytes.last_mut() {
            *byte ^= 1;
        }
    }

    /// For tests: changes a bit of every page, or of one in the middle.
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
            // SAFETY: an allocated slot; a checkpoint that is under way has slots of its own.
            unsafe { *page.add(PAGE_SIZE / 3) ^= 4 };
        }
    }
}
