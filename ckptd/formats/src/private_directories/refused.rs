//! Reasons why a directory is not used.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use understudy_catalogue::message;

/// Variable that names the place in which the directory `understudy-UID` is created.
pub const RUNTIME_DIR: &str = "UNDERSTUDY_RUNTIME_DIR";

/// Reason why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryRefusal {
    /// The path is a link, which could lead anywhere.
    #[error("{}", message::directory_is_link(.0.display()))]
    Link(PathBuf),
    #[error("{}", message::not_a_directory(.0.display()))]
    NotADirectory(PathBuf),
    /// The directory belongs to another user.
    #[error("{}", message::directory_of_another_user(.path.display(), .uid))]
    WrongOwner { path: PathBuf, uid: u32 },
    /// Other users have access.
    #[error("{}", message::directory_open_to_others(.path.display(), .mode))]
    AccessibleToOthers { path: PathBuf, mode: u32 },
    /// Other users can change names in the directory above.
    #[error("{}", message::directory_exchangeable(.path.display(), .mode))]
    ParentWritable { path: PathBuf, mode: u32 },
    /// The directory in UNDERSTUDY_RUNTIME_DIR cannot be used.
    #[error("{}", message::runtime_directory_unusable(.path.display(), .why))]
    UnusableSetting { path: PathBuf, why: String },
    /// A system call has failed: the file system is full, read-only, missing or the like.
    #[error("{path}: {source}", path = .path.display())]
    SystemCall { path: PathBuf, source: io::Error },
}

impl DirectoryRefusal {
    /// True if the job must not start: the directory is unsafe or misconfigured.
    ///
    /// False after a failed system call.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, DirectoryRefusal::SystemCall { .. })
    }
}

impl From<DirectoryRefusal> for io::Error {
    fn from(refused: DirectoryRefusal) -> io::Error {
        match refused {
            DirectoryRefusal::SystemCall { source, .. } => source,
            other => io::Error::new(ErrorKind::PermissionDenied, other.to_string()),
        }
    }
}
