//! Handles of a program of another ABI than Open MPI's, and the virtual ones. Plain data.

use crate::cell::Field;
use std::collections::HashMap;

/// Number of kinds of handles.
pub(super) const KINDS: usize = 11;

/// Predefined handles, and the last translations.
pub struct ForeignHandles {
    /// Predefined handles; `None`: the program has the ABI of the runtime.
    pub(super) known: Field<Option<Known>>,
    /// By kind: the value that was translated last, and its virtual handle.
    pub(super) recent: Field<[(u64, u64); KINDS]>,
}

impl ForeignHandles {
    /// State at the start of the process.
    pub const fn start() -> ForeignHandles {
        ForeignHandles {
            known: Field::new(None),
            recent: Field::new([(0, 0); KINDS]),
        }
    }
}

/// Predefined handles, both ways.
pub(super) struct Known {
    /// By kind and the program's value: the virtual handle.
    pub(super) inward: [HashMap<u64, u64>; KINDS],
    /// By the index of the data symbol: the program's value.
    pub(super) outward: Vec<u64>,
    /// By kind: the null handle.
    pub(super) null: [u64; KINDS],
}
