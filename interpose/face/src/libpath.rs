//! LD_LIBRARY_PATH in a form that gives ld.so's own memory the same layout in all ranks.
//!
//! Before the program's malloc is available, ld.so allocates memory sequentially
//! (`__minimal_malloc` of glibc): first for the directories of this variable, then for its records
//! of libraries, to which tables in the program's data point. A launcher may pass the ranks of
//! different nodes different directories, whose number and lengths would change the addresses of
//! all records.
//!
//! For this reason the number of directories is padded to a multiple of [`STEP`]. In addition, a
//! directory with a very long name is inserted before and after all other directories. ld.so needs
//! new pages for such a name, so the allocations that follow begin at a position in the page that
//! does not depend on earlier allocations. None of the added directories exists.
#![allow(unsafe_code)]

use crate::environment_block::BlockBuilder;
use core::ffi::c_char;

const VARIABLE: &[u8] = b"LD_LIBRARY_PATH=";
/// Prefix of the entry with the variable's original value.
const ORIGINAL_PREFIX: &[u8] = b"UNDERSTUDY_WAS=";
/// The number of directories is padded to a multiple of this number.
const STEP: usize = 128;
const FILLER: &[u8] = b"/.understudy:";
/// Length of the first and the last directory.
///
/// ld.so makes two allocations for each directory: a copy of its name, then its record. The length
/// exceeds the parts of two pages that may remain free at these two allocations.
const LENGTH: usize = 2 * 4096 + 8;

/// Returns a directory whose name exceeds NAME_MAX, followed by a colon.
///
/// The names differ in the last character, because ld.so removes duplicates.
const fn long_name(last: u8) -> [u8; LENGTH + 1] {
    let mut name = [b'.'; LENGTH + 1];
    name[0] = b'/';
    name[LENGTH - 1] = last;
    name[LENGTH] = b':';
    name
}

static FIRST_DIRECTORY: [u8; LENGTH + 1] = long_name(b'1');
static LAST_DIRECTORY: [u8; LENGTH + 1] = long_name(b'2');

/// Adds the padded variable, and an entry with its original value if `path` is given.
pub fn add(builder: &mut BlockBuilder, path: Option<&[u8]>) {
    let given = path.filter(|path| !path.is_empty());
    let is_separator = |&&byte: &&u8| byte == b':' || byte == b';';
    let count = 2 + given.map_or(0, |path| 1 + path.iter().filter(is_separator).count());
    let mut filled = [0; STEP * FILLER.len()];
    let fillers = count.next_multiple_of(STEP) - count;
    for filler in filled.chunks_exact_mut(FILLER.len()).take(fillers) {
        filler.copy_from_slice(FILLER);
    }
    let filled = &filled[..fillers * FILLER.len()];
    let colon: &[u8] = if given.is_some() { b":" } else { b"" };
    builder.add(&[
        VARIABLE,
        &FIRST_DIRECTORY,
        given.unwrap_or(b""),
        colon,
        filled,
        &LAST_DIRECTORY[..LENGTH],
    ]);
    if let Some(path) = path {
        builder.add(&[ORIGINAL_PREFIX, VARIABLE, path]);
    }
}

/// Returns the directories of an entry of the environment, if it is this variable.
pub fn of(entry: &[u8]) -> Option<&[u8]> {
    entry.strip_prefix(VARIABLE)
}

/// Returns true if [`add`] has created this entry for ld.so.
pub fn is_padded(entry: &[u8]) -> bool {
    of(entry).is_some_and(|path| path.starts_with(&FIRST_DIRECTORY))
}

/// Returns the user's entry, if [`add`] has saved it in `entry`.
///
/// # Safety
/// `entry` must be a string.
pub unsafe fn original_entry(entry: *const c_char) -> Option<*const c_char> {
    // SAFETY: the caller guarantees that `entry` is a string.
    let text = unsafe { crate::sys::bytes(entry) };
    text.strip_prefix(ORIGINAL_PREFIX)
        .map(|rest| rest.as_ptr().cast())
}
