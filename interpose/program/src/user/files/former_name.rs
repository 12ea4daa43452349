//! Names of open files, including files whose names were removed.

use crate::user::open_descriptors::{link_of, path_of, stat};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use understudy_abi::descriptor_facts::BACKUP_PREFIX;
use understudy_image::vmas::REMOVED;

/// True for the path of a backup that understudy has made.
pub fn is_backup(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_bytes().starts_with(BACKUP_PREFIX.as_bytes()))
}

/// True if the name in the kernel's path of an open file was removed.
///
/// The file may have other names ([`other_name`]).
pub fn is_nameless(path: &[u8]) -> bool {
    let exists = || {
        Path::new(OsStr::from_bytes(path))
            .symlink_metadata()
            .is_ok()
    };
    path.ends_with(REMOVED) && !exists()
}

/// Remaining names (link(2)) of a file one of whose names was removed.
pub enum OtherName {
    /// No name: the file exists until its last descriptor is closed.
    Missing,
    /// A name in the directory of the removed name.
    InDirectory(Vec<u8>),
    /// Names in other directories.
    Elsewhere,
}

/// Searches for a remaining name of the open file with the kernel's path `path`.
pub fn other_name(file_stat: &libc::stat, path: &[u8]) -> OtherName {
    if file_stat.st_nlink == 0 || !is_nameless(path) {
        return OtherName::Missing;
    }
    let directory = Path::new(OsStr::from_bytes(path)).parent();
    let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
    let is_name_of_file = |entry: &fs::DirEntry| {
        let is_same =
            |found: Metadata| (found.dev(), found.ino()) == (file_stat.st_dev, file_stat.st_ino);
        entry.ino() == file_stat.st_ino && entry.metadata().is_ok_and(is_same)
    };
    let mut backups = 0;
    for entry in entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_name_of_file)
    {
        if !is_backup(&entry.path()) {
            return OtherName::InDirectory(entry.path().into_os_string().into_vec());
        }
        backups += 1;
    }
    if backups == file_stat.st_nlink {
        OtherName::Missing
    } else {
        OtherName::Elsewhere
    }
}

/// Returns a path by which the file can be opened, or else its kernel path.
pub fn present_name(file_stat: &libc::stat, path: &[u8]) -> Vec<u8> {
    match other_name(file_stat, path) {
        OtherName::InDirectory(name) => name,
        _ => path.to_vec(),
    }
}

/// Returns the last name of a file whose name was removed.
pub fn former(path: &Path) -> Option<&Path> {
    let bytes = path.as_os_str().as_bytes();
    let before = bytes.strip_suffix(REMOVED).filter(|_| is_nameless(bytes))?;
    Some(Path::new(OsStr::from_bytes(before)))
}

/// Opens the file of a descriptor with O_PATH (open(2)), for its name only.
pub fn path_only(fd: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(link_of(fd))
}

/// True for a regular file, which has content.
pub fn is_regular(fd: i32) -> bool {
    stat(fd).is_some_and(|file_stat| file_stat.st_mode & libc::S_IFMT == libc::S_IFREG)
}

/// Returns the name of an open file; `None` if the name was removed.
pub fn name_of(file: &File) -> Option<PathBuf> {
    let path = path_of(file.as_raw_fd());
    let has_name = !is_nameless(path.as_os_str().as_bytes()) && path.symlink_metadata().is_ok();
    has_name.then_some(path)
}

/// Returns the name of an open file, or its name before it was removed.
pub fn last_name_of(file: &File) -> PathBuf {
    let path = path_of(file.as_raw_fd());
    former(&path).map(PathBuf::from).unwrap_or(path)
}
