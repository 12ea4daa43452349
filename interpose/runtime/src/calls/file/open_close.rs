//! Opening, closing and deleting files (MPI 4.1, 14.2).
#![allow(unsafe_code)]

use super::file_failure::{
    FileFailure, FileResult, class, comm_of, entry, finish, first_does, library, put, together,
};
use super::{shared_pointer, view};
use crate::Runtime;
use crate::calls::runtime;
use crate::errors::*;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtFile, VirtInfo, real_comm};
use crate::objects::comm::{self, create};
use crate::objects::file::{self, OpenFile, SharedPointer, mode};
use crate::objects::{errhandler, info};
use crate::user::{self, FileCall};
use crate::{cut, drained, process_info, world};
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Rank;
use understudy_relay::in_file_names;

/// Returns a name without a prefix that names the file system's type.
fn without_type(name: &CStr) -> &[u8] {
    let bytes = name.to_bytes();
    let types = ["ufs:", "nfs:", "lustre:", "gpfs:", "panfs:", "pvfs2:"];
    types
        .iter()
        .find_map(|start| bytes.strip_prefix(start.as_bytes()))
        .unwrap_or(bytes)
}

/// Returns the full name of a file.
///
/// # Safety
/// `name` is a C string, or null.
unsafe fn path_of(name: *const c_char) -> FileResult<PathBuf> {
    if name.is_null() {
        return Err(class(ERR_ARG));
    }
    // SAFETY: null is excluded above; MPI requires any other address to be a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let plain = CString::new(without_type(name)).map_err(|_| class(ERR_BAD_FILE))?;
    if plain.is_empty() {
        return Err(class(ERR_BAD_FILE));
    }
    Ok(user::full_name(&plain))
}

fn check_mode(amode: c_int) -> FileResult<()> {
    let has = |flag: c_int| amode & flag != 0;
    let access_modes = [mode::RDONLY, mode::WRONLY, mode::RDWR]
        .into_iter()
        .filter(|&mode| has(mode));
    let creates = has(mode::CREATE) || has(mode::EXCL);
    if access_modes.count() != 1
        || (has(mode::RDONLY) && creates)
        || (has(mode::RDWR) && has(mode::SEQUENTIAL))
    {
        return Err(class(ERR_AMODE));
    }
    Ok(())
}

/// Creates the file if `MPI_MODE_CREATE` is set; an existing one is an error with `MPI_MODE_EXCL`.
fn create_file(rt: &Runtime, path: &Path, amode: c_int) -> FileResult<()> {
    if amode & mode::CREATE == 0 {
        return Ok(());
    }
    user::note_effect(
        rt,
        &FileCall::Open {
            path: path.to_owned(),
            flags: libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        },
    );
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o666)
        .open(path);
    user::record_created_file(rt);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && amode & mode::EXCL == 0 => {
            Ok(())
        }
        other => Ok(other.map(drop)?),
    }
}

/// Creates the communicator of a file.
fn duplicate(rt: &Runtime, parent: VirtComm) -> FileResult<VirtComm> {
    if comm::index(rt, parent).is_none() || comm::remote_members(rt, parent).is_some() {
        return Err(class(ERR_COMM));
    }
    cut::collective(rt, parent)?;
    let mut made = None;
    // SAFETY: a communicator, and an address for the new handle.
    let duplicate = |new: &mut RealComm| unsafe { real::PMPI_Comm_dup(real_comm(rt, parent), new) };
    library(create::make(
        rt,
        duplicate,
        |comm| drained::is_comm_in_use(rt, comm),
        &mut made,
    ))?;
    let made = made.ok_or(class(ERR_INTERN))?;
    Ok(create::register(rt, made, parent))
}

fn free_comm(rt: &Runtime, file_comm: VirtComm) -> FileResult<()> {
    library(comm::index(rt, file_comm).map_or(SUCCESS, |index| comm::freed::free(rt, index, false)))
}

/// True if this process can create a file at this path.
fn can_create(path: &Path) -> bool {
    const LONGEST: usize = 255;
    let directory = path
        .parent()
        .and_then(|above| CString::new(above.as_os_str().as_bytes()).ok());
    let is_writable = |directory: CString| {
        // SAFETY: faccessat(2) reads the C string and accesses no other memory.
        unsafe {
            libc::faccessat(
                libc::AT_FDCWD,
                directory.as_ptr(),
                libc::W_OK | libc::X_OK,
                libc::AT_EACCESS,
            ) == 0
        }
    };
    path.file_name().is_some_and(|name| name.len() <= LONGEST) && directory.is_some_and(is_writable)
}

/// Returns the possible paths of the hidden file for the shared pointer.
///
/// The first path is beside the file, the second in memory. Each opening of a file has its own
/// hidden file.
fn shared_paths(rt: &Runtime, path: &Path, file_comm: VirtComm) -> [PathBuf; 2] {
    let uid = comm::get(rt, file_comm).map_or(0, |comm| comm.uid);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_else(|| OsStr::new("file")));
    name.push(format!(
        ".understudy-shared-{}-{uid:x}",
        in_file_names(&process_info::job())
    ));
    [
        path.with_file_name(name),
        user::in_job_memory(&process_info::job(), &format!("{uid:x}.pointer")),
    ]
}

/// State of an opened file that all its processes have agreed on.
struct AgreedOpening {
    /// Length of the file before the first write; 0 without `MPI_MODE_APPEND`.
    length: u64,
    /// Path of the hidden file for the shared pointer; empty if it cannot be created.
    shared_path: PathBuf,
}

/// Agrees on the outcome: either all processes have opened the file, or none has.
fn agree_on(
    rt: &Runtime,
    file_comm: VirtComm,
    opened: FileResult<u64>,
    paths: [PathBuf; 2],
) -> FileResult<AgreedOpening> {
    let real = real_comm(rt, file_comm);
    let (code, length) = match opened {
        Ok(length) => (SUCCESS, length),
        Err(FileFailure::Class(rc)) => (rc, 0),
        Err(library) => return Err(library),
    };
    let length = if real.rank()? == Rank(0) { length } else { 0 };
    let [beside, in_memory] = paths;
    let must_be_apart = !can_create(&beside);
    let values = [code as u64, u64::from(must_be_apart), length];
    match real.allreduce_min_max(Extreme::Greatest, &values)?[..] {
        [worst, ..] if worst != SUCCESS as u64 => Err(class(worst as c_int)),
        [_, must_be_apart, length] => {
            let shared_path = match must_be_apart == 1 {
                false => beside,
                true if file::is_on_one_node(rt, file_comm, &world::get(rt).process_of) => {
                    in_memory
                }
                true => PathBuf::new(),
            };
            Ok(AgreedOpening {
                length,
                shared_path,
            })
        }
        _ => Err(class(ERR_INTERN)),
    }
}

fn open(
    rt: &Runtime,
    parent: VirtComm,
    path: &Path,
    amode: c_int,
    hints: VirtInfo,
) -> FileResult<VirtFile> {
    check_mode(amode)?;
    comm::require_workers_only(rt, parent).map_err(class)?;
    let file_comm = duplicate(rt, parent)?;
    let opened = open_on(rt, file_comm, path, amode, hints);
    if let Err(FileFailure::Class(_)) = opened {
        free_comm(rt, file_comm)?;
    }
    opened
}

fn open_on(
    rt: &Runtime,
    file_comm: VirtComm,
    path: &Path,
    amode: c_int,
    hints: VirtInfo,
) -> FileResult<VirtFile> {
    let paths = shared_paths(rt, path, file_comm);
    first_does(real_comm(rt, file_comm), || {
        // A node that failed before a rollback may have left hidden files of this opening.
        paths
            .iter()
            .for_each(|leftover| drop(fs::remove_file(leftover)));
        create_file(rt, path, amode)
    })?;
    let mut descriptor = None;
    let opened = file::open(path, amode).and_then(|opened| {
        let metadata = opened.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        descriptor = Some(opened);
        Ok(if amode & mode::APPEND != 0 {
            metadata.len()
        } else {
            0
        })
    });
    let AgreedOpening {
        length,
        shared_path,
    } = agree_on(rt, file_comm, opened.map_err(FileFailure::from), paths)?;
    let descriptor = descriptor.ok_or(class(ERR_INTERN))?;
    Ok(file::enter(
        rt,
        OpenFile {
            path: path.as_os_str().as_bytes().to_vec(),
            mode: amode,
            comm: file_comm.0 as u64,
            info: info::pairs(rt, hints),
            errhandler: errhandler::default_of_files(rt),
            view: view::view_of_bytes(rt),
            atomic: false,
            position: length,
            shared_start: length,
            shared_path: shared_path.into_os_string().into_vec(),
            pointer: SharedPointer::InOtherWorker,
            split: None,
        },
        descriptor,
    ))
}

pub unsafe extern "C" fn MPI_File_open(
    comm: VirtComm,
    filename: *const c_char,
    amode: c_int,
    info: VirtInfo,
    fh: *mut VirtFile,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    let opened = unsafe {
        put(fh, errhandler::null_file(rt))
            .and_then(|()| path_of(filename))
            .and_then(|path| open(rt, comm, &path, amode, info))
            .and_then(|opened| put(fh, opened))
    };
    finish(rt, Proc::MPI_File_open, errhandler::null_file(rt), opened)
}

fn delete(rt: &Runtime, path: &Path) -> FileResult<()> {
    if path.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR).into());
    }
    user::note_effect(
        rt,
        &FileCall::Remove {
            path: path.to_owned(),
            files: true,
            directories: false,
        },
    );
    Ok(fs::remove_file(path)?)
}

fn close(rt: &Runtime, fh: VirtFile) -> FileResult<()> {
    let file = entry(rt, fh)?;
    if file.split.is_some() {
        return Err(class(ERR_REQUEST));
    }
    together(rt, fh)?;
    let done = first_does(comm_of(rt, &file), || {
        shared_pointer::reset(&file)?;
        if file.mode & mode::DELETE_ON_CLOSE == 0 {
            return Ok(());
        }
        match delete(rt, file.path()) {
            // Another process has removed the file meanwhile.
            Err(FileFailure::Class(ERR_NO_SUCH_FILE)) => Ok(()),
            deleted => deleted,
        }
    });
    // A file that cannot be deleted is also closed.
    if let Ok(()) | Err(FileFailure::Class(_)) = done {
        free_comm(rt, file.comm())?;
        view::release(rt, &file.view);
        file::remove(rt, fh);
    }
    done
}

pub unsafe extern "C" fn MPI_File_close(fh: *mut VirtFile) -> c_int {
    let rt = runtime();
    if fh.is_null() {
        return finish(
            rt,
            Proc::MPI_File_close,
            errhandler::null_file(rt),
            Err(class(ERR_ARG)),
        );
    }
    // SAFETY: MPI requires the program's address of a handle to be valid.
    let handle = unsafe { *fh };
    let closed = close(rt, handle);
    if file::get(rt, handle).is_none() {
        // SAFETY: MPI requires the program's address of a handle to be valid.
        unsafe { *fh = errhandler::null_file(rt) };
    }
    finish(rt, Proc::MPI_File_close, handle, closed)
}

pub unsafe extern "C" fn MPI_File_delete(filename: *const c_char, _info: VirtInfo) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program to pass a C string.
    let deleted = unsafe { path_of(filename) }.and_then(|path| delete(rt, &path));
    finish(
        rt,
        Proc::MPI_File_delete,
        errhandler::null_file(rt),
        deleted,
    )
}
