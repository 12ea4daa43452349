//! Of which passive target epochs the library has been told, where their locks are the layer's.

use super::epochs::Epochs;
use std::collections::BTreeSet;
use std::ffi::c_int;

/// On one window, in one generation of MPI.
#[derive(Debug, Default)]
pub struct Told {
    /// Of a lock of all members' parts.
    pub all: bool,
    /// Of locks of these.
    pub ranks: BTreeSet<c_int>,
}

impl Told {
    /// Of these epochs, those that it knows.
    pub fn known(&self, mut epochs: Epochs) -> Epochs {
        epochs.all = epochs.all.filter(|_| self.all);
        epochs.locks.retain(|rank| self.ranks.contains(&rank));
        epochs
    }
}
