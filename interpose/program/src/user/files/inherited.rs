//! Descriptors that the process inherited at its start.

use super::streams;
use crate::user::open_descriptors::{path_of, stat};
use std::os::unix::ffi::OsStrExt;

/// Object that a descriptor referred to at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    fd: i32,
    /// Device and inode.
    ///
    /// Eventfds, epoll sets and similar objects share one anonymous inode, and hence this pair.
    /// Only the kernel's names distinguish them.
    id: (u64, u64),
    name: Vec<u8>,
}

impl Inherited {
    /// Returns the object that a descriptor refers to.
    pub fn from_fd(fd: i32) -> Option<Inherited> {
        let file_stat = stat(fd)?;
        Some(Inherited {
            fd,
            id: (file_stat.st_dev, file_stat.st_ino),
            name: path_of(fd).as_os_str().as_bytes().to_vec(),
        })
    }

    /// True if the descriptor still refers to its object from the start.
    ///
    /// False for standard output and error, which understudy has replaced by pipes.
    fn is_unchanged(&self) -> bool {
        !streams::was_stream(self.fd) && Inherited::from_fd(self.fd).as_ref() == Some(self)
    }
}

/// True if the descriptor still refers to the object that the process has inherited.
pub fn is_launchers(all: &[Inherited], fd: i32) -> bool {
    all.iter()
        .any(|inherited| inherited.fd == fd && inherited.is_unchanged())
}
