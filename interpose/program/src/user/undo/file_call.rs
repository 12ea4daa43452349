//! Calls that change files: calls of the program, and calls that undo such changes.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Call of the program on files that is about to be made.
///
/// All paths are absolute.
#[derive(Clone, Debug)]
pub enum FileCall {
    /// open(2) with flags.
    Open { path: PathBuf, flags: i32 },
    /// renameat2(2) with flags.
    Rename {
        from: PathBuf,
        to: PathBuf,
        flags: u32,
    },
    /// unlink(2), rmdir(2), remove(3).
    Remove {
        path: PathBuf,
        files: bool,
        directories: bool,
    },
    /// mkdir(2), link(2), symlink(2).
    Create { path: PathBuf, directory: bool },
    /// truncate(2).
    Truncate { path: PathBuf, length: i64 },
}

impl FileCall {
    /// Returns the path of the affected file, for messages.
    pub fn path(&self) -> &Path {
        match self {
            FileCall::Rename { to, .. } => to,
            FileCall::Open { path, .. }
            | FileCall::Remove { path, .. }
            | FileCall::Create { path, .. }
            | FileCall::Truncate { path, .. } => path,
        }
    }
}

/// Returns the metadata of a path, without following a symbolic link.
pub fn metadata_of(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok()
}

/// Exchanges the names of two files (RENAME_EXCHANGE of renameat2(2)).
///
/// # Errors
/// Fails with the errors of renameat2(2).
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let [one, other] = [one, other].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (one, other) = (one?, other?);
    let (here, flags) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
    // SAFETY: renameat2(2) with two valid strings.
    match unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            here,
            one.as_ptr(),
            here,
            other.as_ptr(),
            flags,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
