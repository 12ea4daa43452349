//! Reopening of files, by name or through another descriptor.
#![allow(unsafe_code)]

use super::nameless::Nameless;
use super::open_file::OpenFile;
use super::{memory_file, proc_names};
use crate::user::UserError;
use crate::user::open_descriptors::link_of;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reopens a file that was open at the cut, under its descriptor `fd`.
///
/// # Errors
/// Fails if the file cannot be opened, created or duplicated to `fd`.
pub fn reopen(fd: i32, file: &OpenFile, all: &BTreeMap<i32, OpenFile>) -> Result<(), UserError> {
    // SAFETY: open(2), dup3(2), close(2) with valid arguments; the program does not use the
    // previous object of the descriptor.
    unsafe {
        let mode = if file.close_on_exec {
            libc::O_CLOEXEC
        } else {
            0
        };
        if let Some(other) = file.same_as {
            return if libc::dup3(other, fd, mode) < 0 {
                Err(file.failed("cannot be duplicated"))
            } else {
                Ok(())
            };
        }
        let nameless = file
            .nameless
            .as_ref()
            .map(|nameless| open_or_create(nameless, fd, all));
        let path = match nameless {
            None => proc_names::actual(&file.path),
            Some(Ok(ref file)) => format!("/proc/self/fd/{}", file.as_raw_fd()).into_bytes(),
            Some(Err(_)) => return Err(file.failed("cannot be made again")),
        };
        let path = CString::new(path).map_err(|_| file.failed("has an impossible name"))?;
        let mut omitted = libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL;
        if nameless.is_some() {
            omitted |= libc::O_TMPFILE;
        }
        let opened = open_despite_mode(&path, file.flags & !omitted);
        if opened < 0 {
            return Err(file.failed("cannot be opened again"));
        }
        if opened != fd {
            let moved = libc::dup3(opened, fd, mode);
            libc::close(opened);
            if moved < 0 {
                return Err(file.failed("cannot be given its descriptor"));
            }
        }
    }
    Ok(())
}

/// Opens a file, even if its mode does not permit the access any more.
///
/// The program may have changed the mode after opening the file. The owner's rights to read and
/// write are added while the file is opened.
fn open_despite_mode(path: &CStr, flags: i32) -> i32 {
    // SAFETY: open(2), stat(2), chmod(2) with a valid string and structure.
    unsafe {
        let opened = libc::open(path.as_ptr(), flags);
        let mut file_stat: libc::stat = std::mem::zeroed();
        let is_refused = opened < 0 && *libc::__errno_location() == libc::EACCES;
        if !is_refused || libc::stat(path.as_ptr(), &raw mut file_stat) != 0 {
            return opened;
        }
        libc::chmod(path.as_ptr(), file_stat.st_mode & 0o7777 | 0o600);
        let opened = libc::open(path.as_ptr(), flags);
        let error = *libc::__errno_location();
        libc::chmod(path.as_ptr(), file_stat.st_mode & 0o7777);
        *libc::__errno_location() = error;
        opened
    }
}

/// Opens or creates the file without a name of descriptor `fd`.
///
/// The file is opened through another descriptor in `all` that already refers to the same file. If
/// no such descriptor is open, an empty file is created.
fn open_or_create(nameless: &Nameless, fd: i32, all: &BTreeMap<i32, OpenFile>) -> io::Result<File> {
    let is_same = |open: &OpenFile| {
        open.nameless
            .as_ref()
            .is_some_and(|other| other.id == nameless.id)
    };
    // Lower descriptors have already been restored. A higher descriptor may still refer to the
    // file, if the program has not closed it since the cut.
    let is_open = |other: i32| other < fd || (other > fd && nameless.is_open_at(other));
    let other = all
        .iter()
        .find(|&(&other, open)| is_open(other) && is_same(open));
    other.map_or_else(
        || create_like(&all[&fd]),
        |(&other, _)| File::open(link_of(other)),
    )
}

/// Creates an empty file in the directory of `file` if possible, else in memory.
fn create_like(file: &OpenFile) -> io::Result<File> {
    let path = Path::new(OsStr::from_bytes(&file.path));
    let is_in_memory = memory_file::is_memory_file_name(&file.path);
    let directory = path.parent().filter(|_| !is_in_memory);
    let create_in = |directory| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options.custom_flags(libc::O_TMPFILE).open(directory).ok()
    };
    if let Some(created) = directory.and_then(create_in) {
        return Ok(created);
    }
    memory_file::create(&file.path)
}
