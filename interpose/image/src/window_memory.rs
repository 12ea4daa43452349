//! Memory of MPI windows that a node's workers share: one file per window and worker.
//!
//! The name of the file identifies the window and the worker that owns the part in it. A worker's
//! image contains only its own part. A recovery maps the parts of other workers again, and their
//! owners restore the content.
//!
//! A process that maps a missing file creates it. Files can be missing because the recovery takes
//! place on another node, or because the window was freed after the checkpoint.
#![allow(unsafe_code)]

use bincode::{Decode, Encode};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_formats::private_directories::open_own;
use understudy_numbers::Worker;

/// Prefix of the names of the job's files.
static PREFIX: OnceLock<PathBuf> = OnceLock::new();
/// Worker number of this process.
static OWN_WORKER: AtomicU32 = AtomicU32::new(u32::MAX);

/// Separator between the worker's and the window's number in a file name.
const WINDOW_SEPARATOR: &str = ".window";
/// Prefix of the window's number in the name of the window's lock file.
const LOCKS_PREFIX: &str = "locks";

/// Part of a window's memory that belongs to one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct WindowPart {
    /// Number of the window, equal in all members.
    pub window: u64,
    /// Worker whose image contains the part.
    pub owner: Worker,
}

/// Sets the worker of this process; the first call also sets the files' prefix.
pub fn set_worker(prefix: impl FnOnce() -> PathBuf, own: Worker) {
    PREFIX.get_or_init(prefix);
    OWN_WORKER.store(own.0, Ordering::Relaxed);
}

impl WindowPart {
    /// Parses the name of a mapping.
    pub fn from_path(path: &[u8]) -> Option<WindowPart> {
        let name = path.strip_prefix(PREFIX.get()?.as_os_str().as_bytes())?;
        let (owner, window) = std::str::from_utf8(name)
            .ok()?
            .split_once(WINDOW_SEPARATOR)?;
        Some(WindowPart {
            window: u64::from_str_radix(window, 16).ok()?,
            owner: Worker(owner.parse().ok()?),
        })
    }

    /// True if this process's image contains the part.
    pub fn is_own(self) -> bool {
        self.owner.0 == OWN_WORKER.load(Ordering::Relaxed)
    }

    fn path(self) -> PathBuf {
        with_prefix(&format!(
            "{}{WINDOW_SEPARATOR}{:x}",
            self.owner, self.window
        ))
    }

    /// Opens or creates the file and extends it with zeros to at least `bytes`.
    ///
    /// The blocks are allocated at once: otherwise a lack of memory would cause a SIGBUS later.
    ///
    /// # Errors
    /// Errors of open(2) and posix_fallocate(3), for example `ENOSPC`.
    pub fn open(self, bytes: u64) -> io::Result<File> {
        open_with_length(&self.path(), libc::O_CREAT, bytes)
    }

    /// Creates or empties the file, with `bytes` zeros.
    ///
    /// # Errors
    /// Errors of [`WindowPart::open`].
    pub fn create(self, bytes: u64) -> io::Result<File> {
        open_with_length(&self.path(), libc::O_CREAT | libc::O_TRUNC, bytes)
    }

    /// Removes the name of the file, after the window was freed.
    ///
    /// A rollback to an earlier checkpoint creates a new file.
    pub fn remove(self) {
        let _ = std::fs::remove_file(self.path());
    }
}

fn path_of_locks(window: u64) -> PathBuf {
    with_prefix(&format!("{LOCKS_PREFIX}{window:x}"))
}

fn with_prefix(name: &str) -> PathBuf {
    let mut path = PREFIX.get().cloned().unwrap_or_default().into_os_string();
    path.push(name);
    path.into()
}

/// Opens the file of a window's locks, or creates it with zeros.
///
/// No image contains the locks.
///
/// # Errors
/// Errors of [`WindowPart::open`].
pub fn open_locks(window: u64, bytes: u64) -> io::Result<File> {
    open_with_length(&path_of_locks(window), libc::O_CREAT, bytes)
}

/// Removes the file of a freed window's locks.
pub fn remove_locks(window: u64) {
    let _ = std::fs::remove_file(path_of_locks(window));
}

fn open_with_length(path: &Path, flags: libc::c_int, bytes: u64) -> io::Result<File> {
    let file = open_own(path, libc::O_RDWR | flags)?;
    // SAFETY: posix_fallocate(3) on the descriptor of a live `File`.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) } {
        0 => Ok(file),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn names_identify_window_and_owner() {
        let prefix = PathBuf::from("/somewhere/understudy-launcher-node-1@1-");
        set_worker(|| prefix.clone(), Worker(3));
        let (own, other) = (
            WindowPart {
                window: 0x2a,
                owner: Worker(3),
            },
            WindowPart {
                window: 0x2a,
                owner: Worker(4),
            },
        );
        assert!(own.is_own() && !other.is_own());
        for part in [own, other] {
            assert_eq!(
                WindowPart::from_path(part.path().as_os_str().as_bytes()),
                Some(part)
            );
        }
        for name in ["", "3", "3.window", "x.window1", "3.undo"] {
            let path = [prefix.as_os_str(), OsStr::new(name)]
                .map(OsStr::as_bytes)
                .concat();
            assert_eq!(WindowPart::from_path(&path), None);
        }
        assert_eq!(WindowPart::from_path(b"/somewhere/else"), None);
    }

    #[test]
    fn files_keep_their_content_until_they_are_recreated() {
        let path = std::env::temp_dir().join(format!("understudy-part-{}", std::process::id()));
        let length = || std::fs::metadata(&path).expect("a file").len();
        drop(open_with_length(&path, libc::O_CREAT | libc::O_TRUNC, 8192).expect("space"));
        std::fs::write(&path, [7; 100]).expect("space");
        drop(open_with_length(&path, libc::O_CREAT, 4096).expect("space"));
        assert_eq!(
            (length(), std::fs::read(&path).expect("a file")[99]),
            (4096, 7)
        );
        drop(open_with_length(&path, libc::O_CREAT, 100).expect("space"));
        assert_eq!(length(), 4096);
        drop(open_with_length(&path, libc::O_CREAT | libc::O_TRUNC, 4096).expect("space"));
        assert_eq!(std::fs::read(&path).expect("a file"), [0; 4096]);
        std::fs::remove_file(&path).expect("a file");
    }
}
