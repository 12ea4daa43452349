//! Paths relative to open directories.
//!
//! The directories of a path may have been replaced by other directories or by links since its
//! record was written. So the directory is opened, compared with the directory of the record, and
//! then used only through its descriptor.

use super::file_id::FileId;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use understudy_catalogue::message;

/// Path that stands for a directory that does not exist.
const MISSING: &str = "/proc/thread-self/missing";

/// Path whose directory stays open, independently of renames of the directories above.
pub struct Anchor {
    _directory: Option<File>,
    path: PathBuf,
}

impl Anchor {
    /// Opens the directory of a path.
    ///
    /// The directory must be `expected`, unless `expected` is [`FileId::UNKNOWN`].
    ///
    /// [`Anchor::path`] leads to nothing if the directory does not exist.
    ///
    /// # Errors
    /// Fails with other errors of open(2), or if the name leads to another directory.
    pub fn new(path: &Path, expected: FileId) -> io::Result<Anchor> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ErrorKind::InvalidInput.into());
        };
        let mut options = OpenOptions::new();
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let directory = match options.read(true).custom_flags(flags).open(above) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(Anchor {
                    _directory: None,
                    path: Path::new(MISSING).join(name),
                });
            }
            other => other?,
        };
        if expected != FileId::UNKNOWN && !expected.is_of(&directory.metadata()?) {
            return Err(io::Error::other(
                message::other_directory(above.display()).to_string(),
            ));
        }
        let path = format!("/proc/thread-self/fd/{}", directory.as_raw_fd());
        Ok(Anchor {
            _directory: Some(directory),
            path: Path::new(&path).join(name),
        })
    }

    /// Returns a path that leads to the name through the open directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the directory that contains a path.
pub fn directory_of(path: &Path) -> FileId {
    let about = path
        .parent()
        .and_then(|above| std::fs::metadata(above).ok());
    about.map_or(FileId::UNKNOWN, |about| FileId::from_metadata(&about))
}
