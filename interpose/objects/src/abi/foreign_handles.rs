//! Handles of a program with another ABI than Open MPI's, and their virtual handles. Plain data.

use crate::cell::Field;
use std::collections::HashMap;

/// Number of kinds of handles.
pub(super) const KINDS: usize = 11;

/// Predefined handles, and the most recent translations.
pub struct ForeignHandles {
    /// Predefined handles, or `None` if the program has the ABI of the runtime.
    pub(super) known: Field<Option<Known>>,
    /// Most recently translated value of each kind, and its virtual handle.
    pub(super) recent: Field<[(u64, u64); KINDS]>,
}

impl ForeignHandles {
    /// Returns the state at the start of the process.
    pub const fn start() -> ForeignHandles {
        ForeignHandles {
            known: Field::new(None),
            recent: Field::new([(0, 0); KINDS]),
        }
    }
}

/// Predefined handles, in both directions.
pub(super) struct Known {
    /// Virtual handles, by kind and the program's value.
    pub(super) inward: [HashMap<u64, u64>; KINDS],
    /// The program's values, by the index of the data symbol.
    pub(super) outward: Vec<u64>,
    /// Null handles, by kind.
    pub(super) null: [u64; KINDS],
}
