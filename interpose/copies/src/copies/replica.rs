//! Replica of a rank: its pages and its other state, with checksums.
#![allow(unsafe_code)]

use super::ReplayPlan;
use understudy_image::image_delta::Image;
use understudy_image::store::PageStore;
use understudy_image::{PAGE_SIZE, image_delta::SlotRun};
use xxhash_rust::xxh3::xxh3_64;

/// Encoded [`super::SavedState`] of a rank.
#[derive(Clone, Default, bincode::Encode, bincode::Decode)]
pub struct EncodedState {
    pub bytes: Vec<u8>,
    /// Checksum of the bytes at the time of encoding.
    pub sum: u64,
}

impl EncodedState {
    /// Creates the state from bytes that were just encoded.
    pub fn new(bytes: Vec<u8>) -> EncodedState {
        let sum = xxh3_64(&bytes);
        EncodedState { bytes, sum }
    }

    /// True if the bytes are unchanged.
    pub fn is_unchanged(&self) -> bool {
        xxh3_64(&self.bytes) == self.sum
    }
}

/// Replica of a rank.
#[derive(Default, bincode::Encode, bincode::Decode)]
pub struct Replica {
    pub image: Image,
    pub state: EncodedState,
    /// Replay plan for pages that the image does not contain.
    pub replay_plan: Option<ReplayPlan>,
}

impl Replica {
    /// Replaces this replica by another replica.
    pub fn replace(&mut self, other: Replica, store: &mut PageStore) {
        self.image.clear(store);
        *self = other;
    }

    /// Changes a bit outside of the pages, for tests.
    pub fn damage_state(&mut self) {
        if let Some(byte) = self.state.bytes.last_mut() {
            *byte ^= 1;
        }
    }

    /// Changes a bit of every page, or of one page in the middle, for tests.
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
            // SAFETY: the slot is allocated to this image, which is borrowed here; a pending
            // checkpoint uses other slots.
            unsafe { *page.add(PAGE_SIZE / 3) ^= 4 };
        }
    }
}
