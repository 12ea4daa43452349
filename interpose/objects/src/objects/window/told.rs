//! Passive target epochs that were opened in the library, where locks are the runtime's.

use super::epochs::Epochs;
use std::collections::BTreeSet;
use std::ffi::c_int;

/// Epochs in the library on one window, in one MPI instance.
#[derive(Debug, Default)]
pub struct Told {
    /// True if all members' parts are locked in the library.
    pub all: bool,
    /// Ranks whose parts are locked in the library.
    pub ranks: BTreeSet<c_int>,
}

impl Told {
    /// Returns the subset of `epochs` that is also open in the library.
    pub fn known(&self, mut epochs: Epochs) -> Epochs {
        epochs.all = epochs.all.filter(|_| self.all);
        epochs.locks.retain(|rank| self.ranks.contains(&rank));
        epochs
    }
}
