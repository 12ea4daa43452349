//! Refusals of directories.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use understudy_catalogue::message;

/// Variable that names another place for the directory of this user.
pub const RUNTIME_DIR: &str = "UNDERSTUDY_RUNTIME_DIR";

/// Reason why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The path is a link, which could lead anywhere.
    #[error("{}", message::directory_is_link(.0.display()))]
    Link(PathBuf),
    #[error("{}", message::not_a_directory(.0.display()))]
    NotADirectory(PathBuf),
    /// Another user has created it.
    #[error("{}", message::directory_of_another_user(.0.display(), .1))]
    Foreign(PathBuf, u32),
    /// Other users have access.
    #[error("{}", message::directory_open_to_others(.0.display(), .1))]
    Open(PathBuf, u32),
    /// Other users can change names in the directory above.
    #[error("{}", message::directory_exchangeable(.0.display(), .1))]
    Exchangeable(PathBuf, u32),
    /// The place that the user has named cannot be used.
    #[error("{}", message::runtime_directory_unusable(.0.display(), .1))]
    Named(PathBuf, String),
    /// A system call has failed.
    #[error("{0}: {1}")]
    System(PathBuf, #[source] io::Error),
}

impl Refused {
    /// True if another user may have placed an obstacle.
    ///
    /// Otherwise the file system is full, read-only, missing or the like.
    pub fn is_planted(&self) -> bool {
        !matches!(self, Refused::System(..))
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        match refused {
            Refused::System(_, error) => error,
            other => io::Error::new(ErrorKind::PermissionDenied, other.to_string()),
        }
    }
}
