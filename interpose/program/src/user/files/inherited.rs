//! Descriptors that the process was started with.

use super::streams;
use crate::user::open::{path_of, stat};
use std::os::unix::ffi::OsStrExt;

/// Open file of a descriptor at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    fd: i32,
    /// Device and inode.
    ///
    /// All files of an anonymous inode share one; they differ in the kernel's name.
    id: (u64, u64),
    name: Vec<u8>,
}

impl Inherited {
    /// Returns what a descriptor is open on.
    pub fn of(fd: i32) -> Option<Inherited> {
        let about = stat(fd)?;
        Some(Inherited {
            fd,
            id: (about.st_dev, about.st_ino),
            name: path_of(fd).as_os_str().as_bytes().to_vec(),
        })
    }

    /// True if the descriptor is open on the same as at the start.
    ///
    /// The layer has put its own pipes in the place of standard output and error.
    fn is_unchanged(&self) -> bool {
        !streams::was_one(self.fd) && Inherited::of(self.fd).as_ref() == Some(self)
    }
}

/// True if a descriptor is as the launcher has left it.
pub fn is_launchers(all: &[Inherited], fd: i32) -> bool {
    all.iter().any(|it| it.fd == fd && it.is_unchanged())
}
