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
/// `entry::file_effect` calls this function on the runtime's stack.
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
    // SAFETY: the caller passes valid or null strings, and a value as the kind requires. The
    // called functions require only this.
    unsafe {
        match kind {
            effect::OPEN_LIBRARY | effect::CLOSE_LIBRARY => {
                loader::record_operation(&rt.loader, kind, path, value)
            }
            effect::OVERWRITE | effect::OVERWRITE_BY_MAPPING => {
                undo::record_overwriting(
                    rt,
                    directory,
                    &*(value as *const effect::FilePart),
                    kind == effect::OVERWRITE_BY_MAPPING,
                );
            }
            effect::POSIX_QUEUE => undo::record_queue(rt, CStr::from_ptr(path), directory),
            effect::SYSTEM_V_OBJECT => undo::record_object(rt, value, directory),
            _ => undo::file_effect(rt, kind, directory, path, other_directory, other, value),
        }
    }
}
