//! Procedures for a whole file: size, group, mode, atomicity, sync.
#![allow(unsafe_code)]

use super::file_failure::{
    FileFailure, FileResult, agree, class, comm_of, entry, finish, first_does, put, together,
};
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::Proc;
use crate::handles::{VirtFile, VirtGroup};
use crate::objects::file::{self, mode};
use crate::objects::{comm, group};
use crate::user;
use std::ffi::c_int;

/// Changes the length of a file; with `only_longer` it is never reduced.
fn set_size(rt: &Runtime, fh: VirtFile, size: i64, only_longer: bool) -> FileResult<()> {
    let file = entry(rt, fh)?;
    let size = u64::try_from(size).map_err(|_| class(ERR_ARG))?;
    if file.mode & mode::RDONLY != 0 {
        return Err(class(ERR_READ_ONLY));
    }
    together(rt, fh)?;
    first_does(comm_of(rt, &file), || {
        let descriptor = file::descriptor(rt, fh)?;
        let old = descriptor.metadata()?.len();
        if size == old || (only_longer && size < old) {
            return Ok(());
        }
        // The undo log records the removed bytes as overwritten, which covers later writes to them.
        let removed = [(size.min(old), old.saturating_sub(size))];
        user::note_overwriting(rt, &descriptor, &removed);
        Ok(descriptor.set_len(size)?)
    })
}

pub unsafe extern "C" fn MPI_File_set_size(fh: VirtFile, size: i64) -> c_int {
    let rt = runtime();
    finish(
        rt,
        Proc::MPI_File_set_size,
        fh,
        set_size(rt, fh, size, false),
    )
}

pub unsafe extern "C" fn MPI_File_preallocate(fh: VirtFile, size: i64) -> c_int {
    let rt = runtime();
    finish(
        rt,
        Proc::MPI_File_preallocate,
        fh,
        set_size(rt, fh, size, true),
    )
}

fn size_of(rt: &Runtime, fh: VirtFile) -> FileResult<u64> {
    entry(rt, fh)?;
    Ok(file::descriptor(rt, fh)?.metadata()?.len())
}

pub unsafe extern "C" fn MPI_File_get_size(fh: VirtFile, size: *mut i64) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's address for the result to be valid.
    let outcome = size_of(rt, fh).and_then(|bytes| unsafe { put(size, bytes as i64) });
    finish(rt, Proc::MPI_File_get_size, fh, outcome)
}

pub unsafe extern "C" fn MPI_File_get_group(fh: VirtFile, group: *mut VirtGroup) -> c_int {
    let rt = runtime();
    let members =
        entry(rt, fh).and_then(|file| comm::members(rt, file.comm()).ok_or(class(ERR_COMM)));
    let made =
        members.and_then(|members| group::create(rt, members, 0).map_err(FileFailure::Library));
    // SAFETY: MPI requires the program's address for the handle to be valid.
    let outcome = made.and_then(|handle| unsafe { put(group, handle) });
    finish(rt, Proc::MPI_File_get_group, fh, outcome)
}

pub unsafe extern "C" fn MPI_File_get_amode(fh: VirtFile, amode: *mut c_int) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's address for the result to be valid.
    let outcome = entry(rt, fh).and_then(|file| unsafe { put(amode, file.mode) });
    finish(rt, Proc::MPI_File_get_amode, fh, outcome)
}

fn set_atomicity(rt: &Runtime, fh: VirtFile, flag: bool) -> FileResult<()> {
    let file = entry(rt, fh)?;
    together(rt, fh)?;
    comm_of(rt, &file).barrier()?;
    file::get_mut(rt, fh).ok_or(class(ERR_FILE))?.atomic = flag;
    Ok(())
}

pub unsafe extern "C" fn MPI_File_set_atomicity(fh: VirtFile, flag: c_int) -> c_int {
    let rt = runtime();
    finish(
        rt,
        Proc::MPI_File_set_atomicity,
        fh,
        set_atomicity(rt, fh, flag != 0),
    )
}

pub unsafe extern "C" fn MPI_File_get_atomicity(fh: VirtFile, flag: *mut c_int) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's address for the result to be valid.
    let outcome = entry(rt, fh).and_then(|file| unsafe { put(flag, c_int::from(file.atomic)) });
    finish(rt, Proc::MPI_File_get_atomicity, fh, outcome)
}

fn sync(rt: &Runtime, fh: VirtFile) -> FileResult<()> {
    let file = entry(rt, fh)?;
    together(rt, fh)?;
    let synced = file::descriptor(rt, fh).and_then(|descriptor| descriptor.sync_all());
    agree(comm_of(rt, &file), synced.map_err(FileFailure::from))
}

pub unsafe extern "C" fn MPI_File_sync(fh: VirtFile) -> c_int {
    let rt = runtime();
    finish(rt, Proc::MPI_File_sync, fh, sync(rt, fh))
}
