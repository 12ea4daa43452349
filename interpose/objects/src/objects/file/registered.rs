//! Recipes of data representations.

use std::ffi::{CString, c_int};

/// First registration of a name with these functions.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Registered {
    pub(super) name: CString,
    /// True for each function that is not null: reading, writing, extent.
    pub(super) given: [bool; 3],
    pub(super) code: c_int,
}
