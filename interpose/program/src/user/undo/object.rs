//! System V objects and POSIX message queues that the program has created since a cut.
#![allow(unsafe_code)]

use super::recording::with_recorder;
use super::undo_log::Effect;
use crate::user::open_descriptors::stat;
use crate::user::program_runtime::Runtime;
use crate::user::system_v::kernel_object;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Records an object that was created.
pub fn record_object(rt: &Runtime, kind: i64, identifier: i32) {
    with_recorder(rt, Path::new("a System V object"), |recorder| {
        recorder.write(Effect::Object {
            kind,
            identifier,
            namespace: kernel_object::namespace(),
        })
    });
}

/// Removes an object, if it was created in this IPC namespace.
pub(super) fn remove(kind: i64, identifier: i32, namespace: u64) -> io::Result<()> {
    match namespace == kernel_object::namespace() {
        true => kernel_object::remove(kind, identifier),
        false => Ok(()),
    }
}

/// Records the name of a POSIX message queue that was created and is open.
pub fn record_queue(rt: &Runtime, name: &CStr, fd: i32) {
    let Some(file_stat) = stat(fd) else { return };
    let name = name.to_bytes();
    with_recorder(rt, Path::new(OsStr::from_bytes(name)), |recorder| {
        recorder.write(Effect::Queue {
            name: name.to_vec(),
            inode: file_stat.st_ino,
            namespace: kernel_object::namespace(),
        })
    });
}

/// Removes the name of a queue, if it was created in this IPC namespace.
///
/// A name that refers to another queue is kept.
pub(super) fn remove_queue(name: &[u8], inode: u64, namespace: u64) -> io::Result<()> {
    if namespace != kernel_object::namespace() {
        return Ok(());
    }
    let name = CString::new(name)?;
    // SAFETY: mq_open(3) and mq_unlink(3) of a valid string; the descriptor is new.
    unsafe {
        let open = |access| libc::mq_open(name.as_ptr(), access | libc::O_CLOEXEC);
        // The queue's mode may permit only one of the two kinds of access.
        let fd = match open(libc::O_RDONLY) {
            ..0 => open(libc::O_WRONLY),
            fd => fd,
        };
        if fd < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT) => Ok(()),
                _ => Err(error),
            };
        }
        let queue = OwnedFd::from_raw_fd(fd);
        let is_same = stat(queue.as_raw_fd()).is_some_and(|stat| stat.st_ino == inode);
        match is_same && libc::mq_unlink(name.as_ptr()) != 0 {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }
}
