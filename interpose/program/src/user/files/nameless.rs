//! Open files without a name, whose content is part of the checkpoint.
//!
//! Programs remove the name of a file right after opening it, so that the file disappears when the
//! program exits (tmpfile(3), Fortran's scratch files, memfd_create(2)). No other process can open
//! such a file, so a replacement creates an equal file in the file's directory.
#![allow(unsafe_code)]

use super::memory_file;
use crate::user::open_descriptors::{link_of, stat};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

/// Identity and content of a file without a name.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Nameless {
    /// Device and inode.
    pub id: (u64, u64),
    /// `None` if a lower descriptor, whose entry has the content, also refers to this file.
    content: Option<Vec<u8>>,
    /// Seals of a file in memory.
    seals: i32,
    mode: u32,
}

/// Returns the content of a file; `None` if it is longer than `limit` bytes.
///
/// The program's descriptor is read if possible, because closing another descriptor of the file
/// releases the program's locks on the file (fcntl(2)).
pub fn content(fd: i32, flags: i32, limit: usize) -> io::Result<Option<Vec<u8>>> {
    // SAFETY: the program's descriptor, which stays open.
    let own = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let length = own.metadata()?.len();
    if length > limit as u64 {
        return Ok(None);
    }
    let mut content = vec![0; length as usize];
    match flags & libc::O_ACCMODE {
        libc::O_WRONLY => File::open(link_of(fd))?.read_exact_at(&mut content, 0)?,
        _ => own.read_exact_at(&mut content, 0)?,
    }
    Ok(Some(content))
}

impl Nameless {
    /// Returns the file of a descriptor, with the given content.
    pub fn new(fd: i32, id: (u64, u64), content: Option<Vec<u8>>) -> Nameless {
        Nameless {
            id,
            content,
            seals: memory_file::seals(fd),
            mode: stat(fd).map_or(0o600, |file_stat| file_stat.st_mode & 0o7777),
        }
    }

    /// True for a descriptor of this file.
    ///
    /// False if the file has gained seals, because seals cannot be removed.
    pub fn is_open_at(&self, fd: i32) -> bool {
        let is_sealed = || memory_file::seals(fd) & !self.seals != 0;
        let is_same = link_of(fd)
            .metadata()
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.id);
        is_same && !is_sealed()
    }

    /// Restores content, mode and seals of a file where they differ.
    ///
    /// The descriptor may be read-only.
    pub fn fill(&self, fd: i32, flags: i32) -> io::Result<()> {
        let Some(saved) = &self.content else {
            return Ok(());
        };
        if content(fd, flags, saved.len())?.as_ref() != Some(saved) {
            let file = OpenOptions::new().write(true).open(link_of(fd))?;
            file.set_len(saved.len() as u64)?;
            file.write_all_at(saved, 0)?;
        }
        let is_other = |metadata: Metadata| metadata.mode() & 0o7777 != self.mode;
        if link_of(fd).metadata().is_ok_and(is_other) {
            fs::set_permissions(link_of(fd), fs::Permissions::from_mode(self.mode))?;
        }
        memory_file::seal(fd, self.seals)
    }
}
