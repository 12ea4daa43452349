//! Files (MPI 4.1, chapter 14): the layer's alone, by pread(2) and pwrite(2).
//!
//! ```text
//!   view            which bytes of the file a process sees
//!   representation  registrations of data representations, which the library gets
//!   extent          how long data are, in memory and in files
//!   places          where the data of a view lie
//!   memory          the program's buffers, as bytes in the order of their type map
//!   access          reads and writes, at whatever pointer
//!   data            the procedures that do so
//!   shared          the shared pointer
//!   hints           what the program says of its use of a file
//!   names           opening, closing and deleting
//! ```
//!
//! Data access needs nobody else, but for the shared pointer: a collective is what each process would do alone, and whatever does not
//! block has ended when it returns. So no file has anything under way at a cut. What is written or changed is noted in the undo log first.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

mod access;
mod data;
mod extent;
mod hints;
mod memory;
mod names;
mod places;
mod representation;
mod shared;
mod view;

pub use data::*;
pub use hints::{MPI_File_get_info, MPI_File_set_info};
pub use names::{MPI_File_close, MPI_File_delete, MPI_File_open};
pub use representation::MPI_Register_datarep;
pub use view::{
    MPI_File_get_byte_offset, MPI_File_get_type_extent, MPI_File_get_view, MPI_File_set_view,
};

use super::arguments;
use crate::arch::Rewound;
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::Proc;
use crate::handles::{VirtFile, VirtGroup, real_comm};
use crate::objects::errhandler::Object;
use crate::objects::file::{self, File, mode};
use crate::objects::{comm, group};
use crate::raise::raise_on;
use crate::recovery::Runtime;
use crate::{cut, recovery, user};
use std::ffi::c_int;
use std::io;
use understudy_mpi::call::ABANDONED;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Rank;

/// Why a procedure fails.
enum Failure {
    /// What the library has returned; it may be that a process has died.
    Library(c_int),
    /// An error of this class.
    Class(c_int),
    /// The handler is to return at once.
    Rewound,
}

type Result<T> = std::result::Result<T, Failure>;

impl From<Rewound> for Failure {
    fn from(_: Rewound) -> Failure {
        Failure::Rewound
    }
}

impl From<understudy_mpi::Error> for Failure {
    fn from(error: understudy_mpi::Error) -> Failure {
        Failure::Library(error.code())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Class(class_of(&error))
    }
}

/// The class of an error of the operating system (14.7).
fn class_of(error: &io::Error) -> c_int {
    match error.raw_os_error() {
        Some(libc::ENOENT) => ERR_NO_SUCH_FILE,
        Some(libc::EEXIST) => ERR_FILE_EXISTS,
        Some(libc::EACCES | libc::EPERM) => ERR_ACCESS,
        Some(libc::EROFS) => ERR_READ_ONLY,
        Some(libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP) => ERR_BAD_FILE,
        Some(libc::ENOSPC) => ERR_NO_SPACE,
        Some(libc::EDQUOT) => ERR_QUOTA,
        Some(libc::ETXTBSY) => ERR_FILE_IN_USE,
        _ => ERR_IO,
    }
}

fn class(class: c_int) -> Failure {
    Failure::Class(class)
}

/// What a collective of the library's returns, as a result.
fn library(rc: c_int) -> Result<()> {
    if rc == SUCCESS {
        Ok(())
    } else {
        Err(Failure::Library(rc))
    }
}

/// What a local procedure of the library's returns, as a result: an error is this process's, and the others wait for it all the same.
fn local(rc: c_int) -> Result<()> {
    match rc {
        ABANDONED => library(rc),
        rc => library(rc).map_err(|_| class(rc)),
    }
}

/// What a procedure returns: an error goes to the error handler of the file, or of `MPI_FILE_NULL`.
fn finish(rt: &Runtime, procedure: Proc, fh: VirtFile, outcome: Result<()>) -> c_int {
    let rc = match outcome {
        Ok(()) => return SUCCESS,
        Err(Failure::Class(rc)) => rc,
        Err(Failure::Library(rc)) => match recovery::check(rt, rc) {
            Ok(rc) => rc,
            // The program has been rewound.
            Err(_) => return SUCCESS,
        },
        Err(Failure::Rewound) => return SUCCESS,
    };
    let object = match file::index(rt, fh) {
        Some(_) => Object::File(fh),
        None => Object::NoFile,
    };
    raise_on(rt, procedure, rc, object)
}

/// A copy of an open file's entry.
fn known(rt: &Runtime, fh: VirtFile) -> Result<File> {
    file::get(rt, fh)
        .map(|file| file.clone())
        .ok_or(class(ERR_FILE))
}

fn comm_of(rt: &Runtime, file: &File) -> RealComm {
    real_comm(rt, file.comm())
}

/// Writes a value to the program's place for it.
///
/// # Safety
/// `to` is such a place, or null.
unsafe fn put<T>(to: *mut T, value: T) -> Result<()> {
    // SAFETY: handed on to the caller.
    unsafe { arguments::put(to, value) }.map_err(class)
}

/// All who have opened a file come here before they wait for each other, as to any collective. Nothing may have been done before.
fn together(rt: &Runtime, fh: VirtFile) -> Result<()> {
    let comm = file::get(rt, fh)
        .map(|file| file.comm())
        .ok_or(class(ERR_FILE))?;
    Ok(cut::collective(rt, comm)?)
}

/// All processes do the same, or none of them: what has gone wrong for one has for all.
fn agree(comm: RealComm, outcome: Result<()>) -> Result<()> {
    let code = match outcome {
        Ok(()) => SUCCESS,
        Err(Failure::Class(rc)) => rc,
        library => return library,
    };
    match comm.extremes(Extreme::Greatest, &[code as u64])?.first() {
        Some(&worst) if worst != SUCCESS as u64 => Err(class(worst as c_int)),
        _ => Ok(()),
    }
}

/// One process does something for all, when all have come; nobody goes on before.
fn first_does(comm: RealComm, act: impl FnOnce() -> Result<()>) -> Result<()> {
    comm.barrier()?;
    let outcome = if comm.rank()? == Rank(0) {
        act()
    } else {
        Ok(())
    };
    agree(comm, outcome)
}

/// Makes a file longer or shorter; `only_longer`, but not shorter.
fn set_size(rt: &Runtime, fh: VirtFile, size: i64, only_longer: bool) -> Result<()> {
    let file = known(rt, fh)?;
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
        // What is cut off is noted as if it were overwritten, so that accesses after it need not be noted again.
        let cut = [(size.min(old), old.saturating_sub(size))];
        user::note_overwriting(rt, &descriptor, &cut);
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

fn size_of(rt: &Runtime, fh: VirtFile) -> Result<u64> {
    known(rt, fh)?;
    Ok(file::descriptor(rt, fh)?.metadata()?.len())
}

pub unsafe extern "C" fn MPI_File_get_size(fh: VirtFile, size: *mut i64) -> c_int {
    let rt = runtime();
    // SAFETY: the program's place for it.
    let got = size_of(rt, fh).and_then(|bytes| unsafe { put(size, bytes as i64) });
    finish(rt, Proc::MPI_File_get_size, fh, got)
}

pub unsafe extern "C" fn MPI_File_get_group(fh: VirtFile, group: *mut VirtGroup) -> c_int {
    let rt = runtime();
    let members =
        known(rt, fh).and_then(|file| comm::members(rt, file.comm()).ok_or(class(ERR_COMM)));
    let made = members.and_then(|members| group::create(rt, members, 0).map_err(Failure::Library));
    // SAFETY: the program's place for the handle.
    let got = made.and_then(|handle| unsafe { put(group, handle) });
    finish(rt, Proc::MPI_File_get_group, fh, got)
}

pub unsafe extern "C" fn MPI_File_get_amode(fh: VirtFile, amode: *mut c_int) -> c_int {
    let rt = runtime();
    // SAFETY: the program's place for it.
    let got = known(rt, fh).and_then(|file| unsafe { put(amode, file.mode) });
    finish(rt, Proc::MPI_File_get_amode, fh, got)
}

fn set_atomicity(rt: &Runtime, fh: VirtFile, flag: bool) -> Result<()> {
    let file = known(rt, fh)?;
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
    // SAFETY: the program's place for it.
    let got = known(rt, fh).and_then(|file| unsafe { put(flag, c_int::from(file.atomic)) });
    finish(rt, Proc::MPI_File_get_atomicity, fh, got)
}

fn sync(rt: &Runtime, fh: VirtFile) -> Result<()> {
    let file = known(rt, fh)?;
    together(rt, fh)?;
    let synced = file::descriptor(rt, fh).and_then(|descriptor| descriptor.sync_all());
    agree(comm_of(rt, &file), synced.map_err(Failure::from))
}

pub unsafe extern "C" fn MPI_File_sync(fh: VirtFile) -> c_int {
    let rt = runtime();
    finish(rt, Proc::MPI_File_sync, fh, sync(rt, fh))
}
