//! Hints of open files (MPI 4.1, 14.2.8).
#![allow(unsafe_code)]

use super::file_failure::{FileFailure, entry, finish, put};
use crate::Runtime;
use crate::calls::runtime;
use crate::generated::Proc;
use crate::handles::{VirtFile, VirtInfo};
use crate::objects::{file, info};
use std::ffi::c_int;

/// Sets hints; the other hints do not change.
pub(super) fn add_hints(rt: &Runtime, fh: VirtFile, hints: VirtInfo) {
    let new = info::pairs(rt, hints);
    if let Some(mut file) = file::get_mut(rt, fh) {
        let mut all = info::Info {
            pairs: std::mem::take(&mut file.info),
        };
        new.iter().for_each(|(key, value)| all.set(key, value));
        file.info = all.pairs;
    }
}

pub unsafe extern "C" fn MPI_File_set_info(fh: VirtFile, info: VirtInfo) -> c_int {
    let rt = runtime();
    let set = entry(rt, fh).map(|_| add_hints(rt, fh, info));
    finish(rt, Proc::MPI_File_set_info, fh, set)
}

pub unsafe extern "C" fn MPI_File_get_info(fh: VirtFile, info_used: *mut VirtInfo) -> c_int {
    let rt = runtime();
    let made =
        entry(rt, fh).and_then(|file| info::create(rt, &file.info).map_err(FileFailure::Library));
    // SAFETY: MPI requires the program's address for the handle to be valid.
    let outcome = made.and_then(|handle| unsafe { put(info_used, handle) });
    finish(rt, Proc::MPI_File_get_info, fh, outcome)
}
