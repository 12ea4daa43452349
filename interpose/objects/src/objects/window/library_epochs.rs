//! Passive target epochs in the library, of windows whose locks are the runtime's.

use super::epochs::Epochs;
use std::collections::BTreeSet;
use std::ffi::c_int;

/// Epochs in the library on one window, in one MPI instance.
#[derive(Debug, Default)]
pub struct LibraryEpochs {
    /// True if all members' parts are locked in the library.
    pub all: bool,
    /// Ranks whose parts are locked in the library.
    pub ranks: BTreeSet<c_int>,
}

impl LibraryEpochs {
    /// Returns the subset of `epochs` that is also open in the library.
    pub fn open_among(&self, mut epochs: Epochs) -> Epochs {
        epochs.all = epochs.all.filter(|_| self.all);
        epochs.locks.retain(|rank| self.ranks.contains(&rank));
        epochs
    }
}
