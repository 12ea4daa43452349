//! Errors of the procedures of files, and functions that these procedures share.
#![allow(unsafe_code)]

use crate::arch::Rewound;
use crate::calls::arguments;
use crate::cut;
use crate::error_handling::handle_error_on;
use crate::errors::*;
use crate::generated::Proc;
use crate::handles::{VirtFile, real_comm};
use crate::objects::errhandler::ErrorObject;
use crate::objects::file::{self, OpenFile};
use crate::{Runtime, recovery};
use std::ffi::c_int;
use std::io;
use understudy_mpi::call::ABANDONED;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Rank;

/// Reason why a procedure fails.
pub(super) enum FileFailure {
    /// Return code of the library; a process may have failed.
    Library(c_int),
    /// An error of this class.
    Class(c_int),
    /// The program was rewound, so the handler returns at once.
    Rewound,
}

pub(super) type FileResult<T> = std::result::Result<T, FileFailure>;

impl From<Rewound> for FileFailure {
    fn from(_: Rewound) -> FileFailure {
        FileFailure::Rewound
    }
}

impl From<understudy_mpi::Error> for FileFailure {
    fn from(error: understudy_mpi::Error) -> FileFailure {
        FileFailure::Library(error.code())
    }
}

impl From<io::Error> for FileFailure {
    fn from(error: io::Error) -> FileFailure {
        FileFailure::Class(class_of(&error))
    }
}

/// Returns the class of an error of the operating system (14.7).
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

pub(super) fn class(class: c_int) -> FileFailure {
    FileFailure::Class(class)
}

/// Converts the return code of a collective of the library to a result.
pub(super) fn library(rc: c_int) -> FileResult<()> {
    if rc == SUCCESS {
        Ok(())
    } else {
        Err(FileFailure::Library(rc))
    }
}

/// Converts the return code of a local procedure of the library to a result.
///
/// The error occurs in this process only, so other processes may wait for this process in a
/// collective.
pub(super) fn local(rc: c_int) -> FileResult<()> {
    match rc {
        ABANDONED => library(rc),
        rc => library(rc).map_err(|_| class(rc)),
    }
}

/// Returns a procedure's outcome to the program.
///
/// An error is passed to the error handler of the file, or of `MPI_FILE_NULL`.
pub(super) fn finish(
    rt: &Runtime,
    procedure: Proc,
    fh: VirtFile,
    outcome: FileResult<()>,
) -> c_int {
    let rc = match outcome {
        Ok(()) => return SUCCESS,
        Err(FileFailure::Class(rc)) => rc,
        Err(FileFailure::Library(rc)) => match recovery::check(rt, rc) {
            Ok(rc) => rc,
            // The program has been rewound.
            Err(_) => return SUCCESS,
        },
        Err(FileFailure::Rewound) => return SUCCESS,
    };
    let object = match file::index(rt, fh) {
        Some(_) => ErrorObject::File(fh),
        None => ErrorObject::NoFile,
    };
    handle_error_on(rt, procedure, rc, object)
}

/// Returns a copy of an open file's entry.
pub(super) fn entry(rt: &Runtime, fh: VirtFile) -> FileResult<OpenFile> {
    file::get(rt, fh)
        .map(|file| file.clone())
        .ok_or(class(ERR_FILE))
}

pub(super) fn comm_of(rt: &Runtime, file: &OpenFile) -> RealComm {
    real_comm(rt, file.comm())
}

/// Writes a value to an address of the program.
///
/// # Safety
/// `to` must be valid for the value, or null.
pub(super) unsafe fn put<T>(to: *mut T, value: T) -> FileResult<()> {
    // SAFETY: the caller passes an address that is valid for the value, or null.
    unsafe { arguments::put(to, value) }.map_err(class)
}

/// Enters a collective of all processes that have opened a file.
///
/// Must be called before the procedure waits for other processes or has any effect: a cut may be
/// taken here, from which the procedure is repeated.
pub(super) fn together(rt: &Runtime, fh: VirtFile) -> FileResult<()> {
    let comm = file::get(rt, fh)
        .map(|file| file.comm())
        .ok_or(class(ERR_FILE))?;
    Ok(cut::collective(rt, comm)?)
}

/// Agrees on one outcome: an error of one process is an error of all. Collective.
///
/// An error of the library is returned at once, without any exchange.
pub(super) fn agree(comm: RealComm, outcome: FileResult<()>) -> FileResult<()> {
    let code = match outcome {
        Ok(()) => SUCCESS,
        Err(FileFailure::Class(rc)) => rc,
        library => return library,
    };
    match comm
        .allreduce_min_max(Extreme::Greatest, &[code as u64])?
        .first()
    {
        Some(&worst) if worst != SUCCESS as u64 => Err(class(worst as c_int)),
        _ => Ok(()),
    }
}

/// Lets the first process act for all; collective.
///
/// The first process acts after all have entered, and all return its outcome.
pub(super) fn first_does(comm: RealComm, act: impl FnOnce() -> FileResult<()>) -> FileResult<()> {
    comm.barrier()?;
    let outcome = if comm.rank()? == Rank(0) {
        act()
    } else {
        Ok(())
    };
    agree(comm, outcome)
}
