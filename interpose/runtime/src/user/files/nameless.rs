//! Open files that have no name any more: their content goes with the image.
//!
//! Programs remove a file as soon as they have opened it, so that it goes with them (tmpfile(3), Fortran's scratch files,
//! memfd_create(2)). Nobody else can open it, so an understudy makes another one like it, in the same directory.
#![allow(unsafe_code)]

use super::Open;
use crate::image::vmas::REMOVED;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// More than this many bytes, of all of a process together, would make every checkpoint long.
pub const MOST: usize = 64 << 20;

/// Whether a path is that of a backup, which is the layer's.
pub fn is_backup(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_bytes().starts_with(b".understudy-"))
}

/// Which file it is, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Nameless {
    id: (u64, u64),
    content: Vec<u8>,
}

fn within(fd: i32) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}

/// Whether the file that the kernel gives this path has no name.
pub fn is_nameless(path: &[u8]) -> bool {
    let is_there = || Path::new(OsStr::from_bytes(path)).symlink_metadata().is_ok();
    path.ends_with(REMOVED) && !is_there()
}

/// Names (link(2)) of a file whose name was removed.
pub enum Named {
    /// It has none, and goes with the last descriptor.
    Not,
    /// One in the same directory.
    By(Vec<u8>),
    /// Some that are not there.
    Elsewhere,
}

/// Looks for another name of the file that the kernel gives this path.
pub fn other_name(about: &libc::stat, path: &[u8]) -> Named {
    if about.st_nlink == 0 || !is_nameless(path) {
        return Named::Not;
    }
    let directory = Path::new(OsStr::from_bytes(path)).parent();
    let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
    let is_it = |entry: &fs::DirEntry| {
        let is_same = |its: Metadata| (its.dev(), its.ino()) == (about.st_dev, about.st_ino);
        entry.ino() == about.st_ino && entry.metadata().is_ok_and(is_same)
    };
    let mut backups = 0;
    for entry in entries.into_iter().flatten().flatten().filter(is_it) {
        if !is_backup(&entry.path()) {
            return Named::By(entry.path().into_os_string().into_vec());
        }
        backups += 1;
    }
    if backups == about.st_nlink {
        Named::Not
    } else {
        Named::Elsewhere
    }
}

/// The path by which a file can be opened, or the kernel's if there is none.
pub fn present_name(about: &libc::stat, path: &[u8]) -> Vec<u8> {
    match other_name(about, path) {
        Named::By(name) => name,
        _ => path.to_vec(),
    }
}

/// The name that such a file has had.
pub fn former(path: &Path) -> Option<&Path> {
    let bytes = path.as_os_str().as_bytes();
    let before = bytes.strip_suffix(REMOVED).filter(|_| is_nameless(bytes))?;
    Some(Path::new(OsStr::from_bytes(before)))
}

impl Nameless {
    /// Reads it; `None` if it is longer than `room`.
    pub fn read(fd: i32, room: usize) -> io::Result<Option<Nameless>> {
        let file = File::open(within(fd))?;
        let about = file.metadata()?;
        if about.len() > room as u64 {
            return Ok(None);
        }
        let mut content = vec![0; about.len() as usize];
        file.read_exact_at(&mut content, 0)?;
        let id = (about.dev(), about.ino());
        Ok(Some(Nameless { id, content }))
    }

    /// How long it is.
    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Whether this descriptor is open on that file.
    pub fn is_open_at(&self, fd: i32) -> bool {
        within(fd)
            .metadata()
            .is_ok_and(|about| (about.dev(), about.ino()) == self.id)
    }

    /// Makes an empty one like `file`: in the same directory, or in memory where that cannot be.
    pub fn make(file: &Open) -> io::Result<File> {
        let path = Path::new(OsStr::from_bytes(&file.path));
        let directory = path.parent().filter(|_| !file.path.starts_with(b"/memfd:"));
        let like = |directory| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600);
            options.custom_flags(libc::O_TMPFILE).open(directory).ok()
        };
        if let Some(made) = directory.and_then(like) {
            return Ok(made);
        }
        // SAFETY: memfd_create(2), whose descriptor nobody else has.
        let descriptor = unsafe { libc::memfd_create(c"scratch".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: as above.
        Ok(unsafe { File::from_raw_fd(descriptor) })
    }

    /// Gives a file its content again, if that is another one. The descriptor may be one for reading only.
    pub fn fill(&self, fd: i32) -> io::Result<()> {
        if Nameless::read(fd, self.len())?.is_some_and(|now| now.content == self.content) {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).open(within(fd))?;
        file.set_len(self.content.len() as u64)?;
        file.write_all_at(&self.content, 0)
    }
}
