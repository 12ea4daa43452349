//! Effects that the preload library reports before they happen.
//!
//! The effects concern files and loaded libraries.
#![allow(unsafe_code)]

use super::{loader, undo};
use crate::user::program_runtime::DOOR;
use std::ffi::{CStr, c_char, c_int};
use understudy_abi::effect;

/// Records an effect that is about to happen.
///
/// `entry::file_effect` calls this on the runtime's stack.
///
/// # Safety
/// The strings must be valid or null, and the value must be as the kind requires.
pub unsafe extern "C" fn file_effect(
    kind: u32,
    directory: c_int,
    path: *const c_char,
    other_directory: c_int,
    other: *const c_char,
    value: i64,
) {
    let rt = DOOR.get();
    // SAFETY: guaranteed by the caller.
    unsafe {
        match kind {
            effect::OPEN_LIBRARY | effect::CLOSE_LIBRARY => {
                loader::note(&rt.loader, kind, path, value)
            }
            effect::OVERWRITE | effect::MAP => {
                undo::overwriting(
                    rt,
                    directory,
                    &*(value as *const effect::Part),
                    kind == effect::MAP,
                );
            }
            effect::QUEUE => undo::note_queue(rt, CStr::from_ptr(path), directory),
            effect::OBJECT => undo::note_object(rt, value, directory),
            _ => undo::file_effect(rt, kind, directory, path, other_directory, other, value),
        }
    }
}
