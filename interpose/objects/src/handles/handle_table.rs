//! Real handles of this process, which are not saved.
#![allow(unsafe_code)]

use super::virtual_handles::KINDS;
use crate::generated::DATA_COUNT;
use crate::runtime_state::StateCell;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// Real handles, and the most recent translations.
pub struct HandleTable {
    pub(super) real_handles: StateCell<RealHandles>,
    /// Most recent translation of each kind; always equal to the entry in `real_handles`.
    pub(super) recent: [Cell<RecentTranslation>; KINDS],
}

impl HandleTable {
    /// Returns the state at the start of the process.
    pub const fn start() -> HandleTable {
        HandleTable {
            real_handles: StateCell::new(RealHandles {
                created: [const { Vec::new() }; KINDS],
                predefined: [std::ptr::null_mut(); DATA_COUNT],
                symbols: [0; DATA_COUNT],
                reverse: None,
            }),
            recent: [const { Cell::new(NOTHING_RECENT) }; KINDS],
        }
    }
}

/// Real handles behind the virtual handles.
pub(super) struct RealHandles {
    /// Real handles of created objects, by kind and index.
    pub(super) created: [Vec<*mut c_void>; KINDS],
    /// Real handles of predefined objects, by index of the data symbol.
    pub(super) predefined: [*mut c_void; DATA_COUNT],
    /// Addresses on the program side, by index of the data symbol.
    pub(super) symbols: [usize; DATA_COUNT],
    /// Addresses on the program side, by real handle of the predefined object.
    pub(super) reverse: Option<HashMap<usize, usize>>,
}

// SAFETY: handles are addresses that only the real library dereferences.
unsafe impl Send for RealHandles {}

/// Most recent translation of one kind of handle.
///
/// Programs use a few handles in most calls, so many translations repeat the last one.
#[derive(Clone, Copy)]
pub(super) struct RecentTranslation {
    pub(super) handle: *mut c_void,
    pub(super) real: *mut c_void,
    /// Number that [`cache_number`](super::cache_number) has set; zero if none.
    pub(super) number: c_int,
}

// SAFETY: handles are addresses that only the real library dereferences.
unsafe impl Send for RecentTranslation {}

pub(super) const NOTHING_RECENT: RecentTranslation = RecentTranslation {
    handle: std::ptr::null_mut(),
    real: std::ptr::null_mut(),
    number: 0,
};
