//! Shared pointer of a file (MPI 4.1, 14.4.4): [`crate::objects::file::shared_pointer`].
#![allow(unsafe_code)]

use super::file_failure::{
    FileFailure, FileResult, class, comm_of, entry, finish, first_does, together,
};
use super::view_layout::units_before_end;
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::{ERR_ARG, ERR_UNSUPPORTED_OPERATION};
use crate::generated::Proc;
use crate::handles::VirtFile;
use crate::objects::file::{OpenFile, shared_pointer};
use std::ffi::c_int;
use understudy_catalogue::message;

pub(super) const SEEK_SET: c_int = 600;
pub(super) const SEEK_CUR: c_int = 602;
pub(super) const SEEK_END: c_int = 604;

/// Returns the position of the pointer, in units of the view.
pub(super) fn position(file: &OpenFile) -> FileResult<u64> {
    Ok(shared_pointer::position(file)?)
}

fn change(rt: &Runtime, file: &OpenFile, to: impl FnOnce(u64) -> u64) -> FileResult<u64> {
    if file.shared_path.is_empty() {
        log::error!("{}", message::no_shared_pointer(file.path().display()));
        return Err(class(ERR_UNSUPPORTED_OPERATION));
    }
    Ok(shared_pointer::change(rt, file, to)?)
}

/// Advances the pointer; returns its old position.
pub(super) fn advance(rt: &Runtime, file: &OpenFile, units: u64) -> FileResult<u64> {
    if units == 0 {
        return position(file);
    }
    change(rt, file, |old| old + units)
}

/// Resets the pointer to its start.
///
/// Must be called in one process, while all others wait.
pub(super) fn reset(file: &OpenFile) -> FileResult<()> {
    Ok(shared_pointer::reset(file)?)
}

/// Returns the new position of a pointer that is at `now`.
pub(super) fn new_position(
    rt: &Runtime,
    fh: VirtFile,
    file: &OpenFile,
    offset: i64,
    whence: c_int,
    now: u64,
) -> FileResult<u64> {
    let base = match whence {
        SEEK_SET => 0,
        SEEK_CUR => now as i64,
        SEEK_END => units_before_end(rt, fh, file)? as i64,
        _ => return Err(class(ERR_ARG)),
    };
    let to = base.checked_add(offset).filter(|to| *to >= 0);
    to.map(|to| to as u64).ok_or(class(ERR_ARG))
}

fn seek(rt: &Runtime, fh: VirtFile, offset: i64, whence: c_int) -> FileResult<()> {
    let file = entry(rt, fh)?;
    together(rt, fh)?;
    first_does(comm_of(rt, &file), || {
        let to = new_position(rt, fh, &file, offset, whence, position(&file)?)?;
        change(rt, &file, |_| to).map(drop)
    })
}

pub unsafe extern "C" fn MPI_File_seek_shared(fh: VirtFile, offset: i64, whence: c_int) -> c_int {
    let rt = runtime();
    finish(
        rt,
        Proc::MPI_File_seek_shared,
        fh,
        seek(rt, fh, offset, whence),
    )
}

pub unsafe extern "C" fn MPI_File_get_position_shared(fh: VirtFile, offset: *mut i64) -> c_int {
    let rt = runtime();
    let current = entry(rt, fh).and_then(|file| position(&file));
    // SAFETY: MPI requires the program's address for the result to be valid.
    let outcome: std::result::Result<(), FileFailure> =
        current.and_then(|current| unsafe { super::file_failure::put(offset, current as i64) });
    finish(rt, Proc::MPI_File_get_position_shared, fh, outcome)
}
