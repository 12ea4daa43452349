//! Handles of a program with another ABI than Open MPI's, and their virtual handles. Plain data.

use crate::runtime_state::StateCell;
use std::cell::Cell;
use std::collections::HashMap;

/// Number of kinds of handles.
pub(super) const KINDS: usize = 11;

/// Predefined handles, and the most recent translations.
pub struct ForeignHandles {
    /// Predefined handles; `None` until [`connect`](super::connect), and with Open MPI's ABI.
    pub(super) predefined: StateCell<Option<PredefinedHandles>>,
    /// Handle of the created object number 0 of each kind, where handles are integers.
    ///
    /// Zero until [`connect`](super::connect).
    pub(super) created: [Cell<u32>; KINDS],
    /// Most recent translation of a predefined handle, for each kind.
    pub(super) recent: [Cell<RecentTranslation>; KINDS],
}

/// Most recent translation of one kind of handle; `virtual_handle` is zero if there is none.
#[derive(Clone, Copy)]
pub(super) struct RecentTranslation {
    pub(super) program_handle: u64,
    pub(super) virtual_handle: u64,
}

impl ForeignHandles {
    /// Returns the state at the start of the process.
    pub const fn start() -> ForeignHandles {
        ForeignHandles {
            predefined: StateCell::new(None),
            created: [const { Cell::new(0) }; KINDS],
            recent: [const {
                Cell::new(RecentTranslation {
                    program_handle: 0,
                    virtual_handle: 0,
                })
            }; KINDS],
        }
    }
}

/// Predefined handles, in both directions.
pub(super) struct PredefinedHandles {
    /// Virtual handles, by kind and the program's value.
    pub(super) inward: [HashMap<u64, u64>; KINDS],
    /// The program's values, by the index of the data symbol.
    pub(super) outward: Vec<u64>,
}
