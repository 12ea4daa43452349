//! Shared pointer of a file (MPI 4.1, 14.4.4).
//!
//! The pointer is a number in a hidden file, which a file lock protects. The hidden file is in the
//! directory of the file. If it cannot be created there, and all members are on one node, it is in
//! the job's directory in memory. It is created when the pointer is first moved; until then the
//! pointer is at its start.
//!
//! The undo logs cannot record the moves: members on several nodes move the pointer, and each node
//! undoes its own logs without those of the other nodes. Instead the first member saves the
//! pointer's position at a cut, while all members are quiesced, and restores it in a rollback,
//! after all logs have been undone. The logs do record the creation of the hidden file, which is
//! therefore removed if the file was not open at the cut.
#![allow(unsafe_code)]

use super::open_file::{OpenFile, SharedPointer};
use crate::user::{self, FileCall, Runtime};
use std::ffi::{c_int, c_short};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Locks or unlocks a range of a file, and waits for the lock (fcntl(2): F_OFD_SETLKW).
///
/// The lock belongs to the open file description. A `kind` of `F_UNLCK`, or closing the descriptor,
/// releases the lock.
pub fn lock(file: &fs::File, kind: c_int, (offset, length): (u64, u64)) -> io::Result<()> {
    // SAFETY: the structure consists of integers, for which zero is a valid value.
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

/// Returns the position in the hidden file; `None` if it contains none or is missing.
fn moved_position(file: &OpenFile) -> io::Result<Option<u64>> {
    match fs::File::open(file.shared_path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        open => {
            let open = open?;
            lock(&open, libc::F_RDLCK, (0, 8))?;
            read(&open)
        }
    }
}

/// Returns the position of the pointer, in units of the view.
pub fn position(file: &OpenFile) -> io::Result<u64> {
    Ok(moved_position(file)?.unwrap_or(file.shared_start))
}

/// Opens or creates the hidden file, and waits for its lock.
fn open(file: &OpenFile) -> io::Result<fs::File> {
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

/// Moves the pointer to `new_position(old)`; returns the old position.
pub fn change(
    rt: &Runtime,
    file: &OpenFile,
    new_position: impl FnOnce(u64) -> u64,
) -> io::Result<u64> {
    user::note_effect(
        rt,
        &FileCall::Open {
            path: file.shared_path().to_owned(),
            flags: libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
        },
    );
    let open = open(file);
    user::record_created_file(rt);
    let open = open?;
    let old = read(&open)?.unwrap_or(file.shared_start);
    open.write_all_at(&new_position(old).to_le_bytes(), 0)?;
    Ok(old)
}

/// Moves the pointer to its start.
pub fn reset(file: &OpenFile) -> io::Result<()> {
    match fs::remove_file(file.shared_path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the saved state of the pointer at a cut.
pub fn at_cut(file: &OpenFile) -> io::Result<SharedPointer> {
    if file.shared_path.is_empty() {
        return Ok(SharedPointer::InOtherWorker);
    }
    Ok(moved_position(file)?.map_or(SharedPointer::Unmoved, SharedPointer::At))
}

/// Restores the pointer's position at the cut.
pub fn restore(file: &OpenFile) -> io::Result<()> {
    match file.pointer {
        SharedPointer::InOtherWorker => Ok(()),
        SharedPointer::Unmoved => reset(file),
        SharedPointer::At(unit) => open(file)?.write_all_at(&unit.to_le_bytes(), 0),
    }
}
