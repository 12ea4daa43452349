//! The shared pointer (MPI 4.1, 14.4.4): a number in a hidden file beside the file, under a lock.
//!
//! The hidden file is made when the pointer is first moved; until then the pointer is where it was at the start. Its changes are noted in the
//! undo log as those of any other file, so a rollback sets the pointer back.
#![allow(unsafe_code)]

use super::places::units_before_end;
use super::{Failure, Result, class, comm_of, finish, first_does, known, together};
use crate::calls::runtime;
use crate::errors::ERR_ARG;
use crate::generated::Proc;
use crate::handles::VirtFile;
use crate::objects::file::File;
use crate::recovery::Runtime;
use crate::user::{self, FileCall};
use std::ffi::{c_int, c_short};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// `MPI_SEEK_SET`
pub(super) const SEEK_SET: c_int = 600;
/// `MPI_SEEK_CUR`
pub(super) const SEEK_CUR: c_int = 602;
/// `MPI_SEEK_END`
pub(super) const SEEK_END: c_int = 604;

/// Waits for a lock on a range of a file, against everybody who opens it for himself (fcntl(2): F_OFD_SETLKW). It goes with `F_UNLCK`, or with
/// the descriptor.
pub(super) fn lock(file: &std::fs::File, kind: c_int, (offset, length): (u64, u64)) -> io::Result<()> {
    // SAFETY: numbers only.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as c_short;
    lock.l_whence = libc::SEEK_SET as c_short;
    lock.l_start = offset as libc::off_t;
    lock.l_len = length as libc::off_t;
    loop {
        // SAFETY: fcntl(2) on an open file, with a valid structure.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw mut lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn read(file: &File, open: &std::fs::File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    Ok(match open.read_at(&mut bytes, 0)? {
        8 => u64::from_le_bytes(bytes),
        _ => file.shared_start,
    })
}

/// Where the pointer is, in units of the view.
pub(super) fn position(file: &File) -> Result<u64> {
    match std::fs::File::open(file.shared_path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(file.shared_start),
        open => {
            let open = open?;
            lock(&open, libc::F_RDLCK, (0, 8))?;
            Ok(read(file, &open)?)
        }
    }
}

/// Moves the pointer; with where it was.
fn change(rt: &Runtime, file: &File, to: impl FnOnce(u64) -> u64) -> Result<u64> {
    let path = file.shared_path();
    user::note_effect(
        rt,
        &FileCall::Open {
            path: path.to_owned(),
            flags: libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        },
    );
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o666);
    let open = options.open(path)?;
    lock(&open, libc::F_WRLCK, (0, 8))?;
    let old = read(file, &open)?;
    user::note_overwriting(rt, &open, &[(0, 8)]);
    open.write_all_at(&to(old).to_le_bytes(), 0)?;
    Ok(old)
}

/// Moves the pointer on; with where it was.
pub(super) fn move_on(rt: &Runtime, file: &File, units: u64) -> Result<u64> {
    change(rt, file, |old| old + units)
}

/// The pointer is at its start again. All have come, and wait.
pub(super) fn forget(rt: &Runtime, file: &File) -> Result<()> {
    let path = file.shared_path();
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    super::remove(rt, path)
}

/// Where a pointer goes that is at `now`.
pub(super) fn sought(rt: &Runtime, fh: VirtFile, file: &File, offset: i64, whence: c_int, now: u64) -> Result<u64> {
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

/// `MPI_File_seek_shared`
pub unsafe extern "C" fn MPI_File_seek_shared(fh: VirtFile, offset: i64, whence: c_int) -> c_int {
    let rt = runtime();
    finish(rt, Proc::MPI_File_seek_shared, fh, seek(rt, fh, offset, whence))
}

/// `MPI_File_get_position_shared`
pub unsafe extern "C" fn MPI_File_get_position_shared(fh: VirtFile, offset: *mut i64) -> c_int {
    let rt = runtime();
    let place = known(rt, fh).and_then(|file| position(&file));
    // SAFETY: the program's place for it.
    let got: std::result::Result<(), Failure> = place.and_then(|place| unsafe { super::put(offset, place as i64) });
    finish(rt, Proc::MPI_File_get_position_shared, fh, got)
}
