//! Representations of data in files that the program has registered (MPI 4.1, 14.5.3).
//!
//! They stay as long as the program runs, and are known by their number.

use crate::objects::{Runtime, objects, objects_mut};

/// A representation of the program's: its functions are addresses of the user side.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// The function that converts what is read; 0: `MPI_CONVERSION_FN_NULL`.
    pub read: u64,
    /// The function that converts what is written; 0: `MPI_CONVERSION_FN_NULL`.
    pub write: u64,
    /// The function that tells the extents of predefined datatypes in the file.
    pub extent: u64,
    /// What all of them get.
    pub extra_state: u64,
    /// What the last one has told: handle of the datatype, bytes. It is asked once for each, in a run with failures as in one without.
    pub sizes: Vec<(u64, u64)>,
}

/// The number of the representation of this name.
pub fn find(rt: &Runtime, name: &[u8]) -> Option<u32> {
    let at = objects(rt)
        .representations
        .iter()
        .position(|one| one.name == name)?;
    u32::try_from(at).ok()
}

/// Enters a new one.
pub fn register(rt: &Runtime, new: Registered) {
    objects_mut(rt).representations.push(new);
}

/// A copy of the entry: no borrow is held while a function of it runs.
pub fn get(rt: &Runtime, number: u32) -> Option<Registered> {
    objects(rt).representations.get(number as usize).cloned()
}

/// Notes what the extent function has told.
pub fn note_size(rt: &Runtime, number: u32, datatype: u64, bytes: u64) {
    if let Some(one) = objects_mut(rt).representations.get_mut(number as usize) {
        one.sizes.push((datatype, bytes));
    }
}
