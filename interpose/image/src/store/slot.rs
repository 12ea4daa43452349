//! Slots of a store, each of which contains one page.

/// Slot of the arena: memory for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
pub struct Slot(pub u64);

/// Run of consecutive slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub first: Slot,
    pub len: u64,
}

impl Extent {
    /// Returns the slots from `first` on, up to but not including `end`.
    pub(super) fn between(first: u64, end: u64) -> Extent {
        Extent {
            first: Slot(first),
            len: end - first,
        }
    }

    /// Returns the number of the first slot behind the extent.
    pub(super) fn end(self) -> u64 {
        self.first.0 + self.len
    }
}
