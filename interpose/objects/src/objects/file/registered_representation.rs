//! Recipes of data representations.

use std::ffi::{CString, c_int};

/// Registration of a data representation by the program.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct RegisteredRepresentation {
    pub(super) name: CString,
    /// True for each function that is not null: reading, writing, extent.
    pub(super) given: [bool; 3],
    /// Return code of the library.
    pub(super) code: c_int,
}
