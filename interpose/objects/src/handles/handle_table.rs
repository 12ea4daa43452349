//! Real handles of this process, which are not saved.
#![allow(unsafe_code)]

use super::virtual_handles::KINDS;
use crate::cell::Field;
use crate::generated::DATA_COUNT;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// Real handles, and the last translations.
pub struct HandleTable {
    pub(super) reals: Field<Reals>,
    /// By kind; always what a look-up in `reals` would give.
    pub(super) recent: [Cell<Recent>; KINDS],
}

impl HandleTable {
    /// State at the start of the process.
    pub const fn start() -> HandleTable {
        HandleTable {
            reals: Field::new(Reals {
                created: [const { Vec::new() }; KINDS],
                predefined: [std::ptr::null_mut(); DATA_COUNT],
                symbols: [0; DATA_COUNT],
                reverse: None,
            }),
            recent: [const { Cell::new(NOTHING_RECENT) }; KINDS],
        }
    }
}

/// Real handles behind the virtual ones.
pub(super) struct Reals {
    /// By kind and index: real handles of created objects.
    pub(super) created: [Vec<*mut c_void>; KINDS],
    /// By index of the data symbol: real handles of predefined objects.
    pub(super) predefined: [*mut c_void; DATA_COUNT],
    /// By index of the data symbol: the user side's address.
    pub(super) symbols: [usize; DATA_COUNT],
    /// From predefined real handles to the user side's addresses.
    pub(super) reverse: Option<HashMap<usize, usize>>,
}

// SAFETY: handles are addresses that only the real library follows.
unsafe impl Send for Reals {}

/// What was translated last: programs use the same few handles again and again.
#[derive(Clone, Copy)]
pub(super) struct Recent {
    pub(super) handle: *mut c_void,
    pub(super) real: *mut c_void,
    pub(super) note: c_int,
}

// SAFETY: as of `Reals`.
unsafe impl Send for Recent {}

pub(super) const NOTHING_RECENT: Recent = Recent {
    handle: std::ptr::null_mut(),
    real: std::ptr::null_mut(),
    note: 0,
};
