//! Memory that workers of a node share as a window of MPI: files in memory, each of them one
//! worker's part.
//!
//! The name of a mapping tells the window, and whose part it is. A worker's image holds its own
//! part; those of others are mapped again, and put back by their owners. Who maps a file makes it
//! if it is missing: a recovery may lead to another node, and behind the end of a window.
#![allow(unsafe_code)]

use bincode::{Decode, Encode};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use understudy_formats::private::open_own;
use understudy_numbers::Worker;

/// What the names of the job's files begin with.
static PREFIX: OnceLock<PathBuf> = OnceLock::new();
/// The worker that this process plays.
static OWN: AtomicU32 = AtomicU32::new(u32::MAX);

/// What stands between a worker and a window's number.
const WINDOW: &str = ".window";
/// What stands before a window's number in the name of the file of its locks.
const LOCKS: &str = "locks";

/// One worker's part of a window's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Part {
    /// A number that all members of the window know.
    pub window: u64,
    /// Whose image it is in.
    pub owner: Worker,
}

/// This process plays that worker. The first call says what files' names begin with.
pub fn begin(prefix: impl FnOnce() -> PathBuf, own: Worker) {
    PREFIX.get_or_init(prefix);
    OWN.store(own.0, Ordering::Relaxed);
}

impl Part {
    /// What the name of a mapping tells.
    pub fn of(path: &[u8]) -> Option<Part> {
        let name = path.strip_prefix(PREFIX.get()?.as_os_str().as_bytes())?;
        let (owner, window) = std::str::from_utf8(name).ok()?.split_once(WINDOW)?;
        Some(Part {
            window: u64::from_str_radix(window, 16).ok()?,
            owner: Worker(owner.parse().ok()?),
        })
    }

    /// Whether it is in this process's image.
    pub fn is_own(self) -> bool {
        self.owner.0 == OWN.load(Ordering::Relaxed)
    }

    fn path(self) -> PathBuf {
        with_prefix(&format!("{}{WINDOW}{:x}", self.owner, self.window))
    }

    /// The file, with at least so many bytes. What of it is new holds zeros.
    ///
    /// # Errors
    /// Those of open(2); `ENOSPC` where the memory is missing, which would be a bus error later.
    pub fn open(self, bytes: u64) -> io::Result<File> {
        with_bytes(&self.path(), libc::O_CREAT, bytes)
    }

    /// A new file of so many zeros.
    ///
    /// # Errors
    /// As of [`Part::open`].
    pub fn make(self, bytes: u64) -> io::Result<File> {
        with_bytes(&self.path(), libc::O_CREAT | libc::O_TRUNC, bytes)
    }

    /// Nobody maps it again but after going back.
    pub fn remove(self) {
        let _ = std::fs::remove_file(self.path());
    }
}

fn path_of_locks(window: u64) -> PathBuf {
    with_prefix(&format!("{LOCKS}{window:x}"))
}

fn with_prefix(name: &str) -> PathBuf {
    let mut path = PREFIX.get().cloned().unwrap_or_default().into_os_string();
    path.push(name);
    path.into()
}

/// The file of a window's locks, which is in nobody's image. New, it holds zeros.
///
/// # Errors
/// As of [`Part::open`].
pub fn open_locks(window: u64, bytes: u64) -> io::Result<File> {
    with_bytes(&path_of_locks(window), libc::O_CREAT, bytes)
}

/// The window has gone.
pub fn remove_locks(window: u64) {
    let _ = std::fs::remove_file(path_of_locks(window));
}

fn with_bytes(path: &Path, flags: libc::c_int, bytes: u64) -> io::Result<File> {
    let file = open_own(path, libc::O_RDWR | flags)?;
    // SAFETY: posix_fallocate(3) of a file of this frame.
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
    fn names_tell_window_and_owner() {
        let prefix = PathBuf::from("/somewhere/understudy-launcher-node-1@1-");
        begin(|| prefix.clone(), Worker(3));
        let (own, other) = (
            Part {
                window: 0x2a,
                owner: Worker(3),
            },
            Part {
                window: 0x2a,
                owner: Worker(4),
            },
        );
        assert!(own.is_own() && !other.is_own());
        for part in [own, other] {
            assert_eq!(Part::of(part.path().as_os_str().as_bytes()), Some(part));
        }
        for name in ["", "3", "3.window", "x.window1", "3.undo"] {
            let path = [prefix.as_os_str(), OsStr::new(name)]
                .map(OsStr::as_bytes)
                .concat();
            assert_eq!(Part::of(&path), None);
        }
        assert_eq!(Part::of(b"/somewhere/else"), None);
    }

    #[test]
    fn files_keep_what_they_hold_until_they_are_made_anew() {
        let path = std::env::temp_dir().join(format!("understudy-part-{}", std::process::id()));
        let length = || std::fs::metadata(&path).expect("a file").len();
        drop(with_bytes(&path, libc::O_CREAT | libc::O_TRUNC, 8192).expect("space"));
        std::fs::write(&path, [7; 100]).expect("space");
        drop(with_bytes(&path, libc::O_CREAT, 4096).expect("space"));
        assert_eq!(
            (length(), std::fs::read(&path).expect("a file")[99]),
            (4096, 7)
        );
        drop(with_bytes(&path, libc::O_CREAT, 100).expect("space"));
        assert_eq!(length(), 4096);
        drop(with_bytes(&path, libc::O_CREAT | libc::O_TRUNC, 4096).expect("space"));
        assert_eq!(std::fs::read(&path).expect("a file"), [0; 4096]);
        std::fs::remove_file(&path).expect("a file");
    }
}
