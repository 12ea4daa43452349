//! The shared pointer (MPI 4.1, 14.4.4): a number in a hidden file, under a lock.
//!
//! It is beside the file, or, where nothing can be made there and all members are on one node, in
//! the job's directory in memory. It is made when the pointer is first moved; until then the
//! pointer is where it was at the start.
//!
//! Members on several nodes move it, and each node has an undo log of its own. So it is in none:
//! the first member notes at a cut where the pointer is, while all stand still, and sets it back
//! when all logs are undone. That it was made is noted, so that it goes if its file is closed in a
//! rollback.
#![allow(unsafe_code)]

use super::open_file::{File, Pointer};
use crate::user::{self, FileCall, Runtime};
use std::ffi::{c_int, c_short};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Waits for a lock on a range of a file, against everybody who opens it for himself (fcntl(2):
/// F_OFD_SETLKW). It goes with `F_UNLCK`, or with the descriptor.
pub fn lock(file: &fs::File, kind: c_int, (offset, length): (u64, u64)) -> io::Result<()> {
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

fn read(open: &fs::File) -> io::Result<Option<u64>> {
    let mut bytes = [0; 8];
    let count = open.read_at(&mut bytes, 0)?;
    Ok((count == 8).then(|| u64::from_le_bytes(bytes)))
}

fn moved_to(file: &File) -> io::Result<Option<u64>> {
    match fs::File::open(file.shared_path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        open => {
            let open = open?;
            lock(&open, libc::F_RDLCK, (0, 8))?;
            read(&open)
        }
    }
}

/// Where the pointer is, in units of the view.
pub fn position(file: &File) -> io::Result<u64> {
    Ok(moved_to(file)?.unwrap_or(file.shared_start))
}

fn open(file: &File) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    let open = options.open(file.shared_path())?;
    lock(&open, libc::F_WRLCK, (0, 8))?;
    Ok(open)
}

/// Moves the pointer; with where it was.
pub fn change(rt: &Runtime, file: &File, to: impl FnOnce(u64) -> u64) -> io::Result<u64> {
    user::note_effect(
        rt,
        &FileCall::Open {
            path: file.shared_path().to_owned(),
            flags: libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        },
    );
    let open = open(file);
    user::note_made(rt);
    let open = open?;
    let old = read(&open)?.unwrap_or(file.shared_start);
    open.write_all_at(&to(old).to_le_bytes(), 0)?;
    Ok(old)
}

/// The pointer is at its start again.
pub fn forget(file: &File) -> io::Result<()> {
    match fs::remove_file(file.shared_path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Where the pointer is at a cut.
pub fn at_cut(file: &File) -> io::Result<Pointer> {
    if file.shared_path.is_empty() {
        return Ok(Pointer::Others);
    }
    Ok(moved_to(file)?.map_or(Pointer::Unmoved, Pointer::At))
}

/// Sets the pointer back to where it was at the cut.
pub fn put_back(file: &File) -> io::Result<()> {
    match file.pointer {
        Pointer::Others => Ok(()),
        Pointer::Unmoved => forget(file),
        Pointer::At(unit) => open(file)?.write_all_at(&unit.to_le_bytes(), 0),
    }
}
