//! Shared pointer of a file (MPI 4.1, 14.4.4): [`crate::objects::file::pointer`].
#![allow(unsafe_code)]

use super::file_failure::{Failure, Result, class, comm_of, finish, first_does, known, together};
use super::places::units_before_end;
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::{ERR_ARG, ERR_UNSUPPORTED_OPERATION};
use crate::generated::Proc;
use crate::handles::VirtFile;
use crate::objects::file::{File, pointer};
use std::ffi::c_int;
use understudy_catalogue::message;

pub(super) const SEEK_SET: c_int = 600;
pub(super) const SEEK_CUR: c_int = 602;
pub(super) const SEEK_END: c_int = 604;

/// Returns the position of the pointer, in units of the view.
pub(super) fn position(file: &File) -> Result<u64> {
    Ok(pointer::position(file)?)
}

fn change(rt: &Runtime, file: &File, to: impl FnOnce(u64) -> u64) -> Result<u64> {
    if file.shared_path.is_empty() {
        log::error!("{}", message::no_shared_pointer(file.path().display()));
        return Err(class(ERR_UNSUPPORTED_OPERATION));
    }
    Ok(pointer::change(rt, file, to)?)
}

/// Advances the pointer; returns its old position.
pub(super) fn move_on(rt: &Runtime, file: &File, units: u64) -> Result<u64> {
    if units == 0 {
        return position(file);
    }
    change(rt, file, |old| old + units)
}

/// Resets the pointer to its start; all processes have entered, and wait.
pub(super) fn forget(file: &File) -> Result<()> {
    Ok(pointer::forget(file)?)
}

/// Returns the new position of a pointer that is at `now`.
pub(super) fn sought(
    rt: &Runtime,
    fh: VirtFile,
    file: &File,
    offset: i64,
    whence: c_int,
    now: u64,
) -> Result<u64> {
    let base = match whence {
        SEEK_SET => 0,
        SEEK_CUR => now as i64,
        SEEK_END => units_before_end(rt, fh, file)? as i64,
        _ => return Err(class(ERR_ARG)),
    };
    let to = base.checked_add(offset).filter(|to| *to >= 0);
    to.map(|to| to as u64).ok_or(class(ERR_ARG))
}

fn seek(rt: &Runtime, fh: VirtFile, offset: i64, whence: c_int) -> Result<()> {
    let file = known(rt, fh)?;
    together(rt, fh)?;
    first_does(comm_of(rt, &file), || {
        let to = sought(rt, fh, &file, offset, whence, position(&file)?)?;
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
    let place = known(rt, fh).and_then(|file| position(&file));
    // SAFETY: the program's address for the result.
    let got: std::result::Result<(), Failure> =
        place.and_then(|place| unsafe { super::file_failure::put(offset, place as i64) });
    finish(rt, Proc::MPI_File_get_position_shared, fh, got)
}
