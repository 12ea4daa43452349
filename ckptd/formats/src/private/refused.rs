//! Refusals of directories.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Variable that names another place for the directory of this user.
pub const RUNTIME_DIR: &str = "UNDERSTUDY_RUNTIME_DIR";

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It could lead anywhere.
    #[error("{0} is a symbolic link, and could lead anywhere")]
    Link(PathBuf),
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    /// Somebody else has made it.
    #[error("{0} belongs to user {1}")]
    Foreign(PathBuf, u32),
    /// Others have rights there.
    #[error("{0} can be entered by others (mode {1:o})")]
    Open(PathBuf, u32),
    /// Names in the directory above can be changed by others.
    #[error("{0} is writable for others and has no sticky bit (mode {1:o})")]
    Exchangeable(PathBuf, u32),
    /// The user has named this place, and it cannot be used.
    #[error("{RUNTIME_DIR} names {0}, which cannot be used: {1}")]
    Named(PathBuf, String),
    /// The system does not give it.
    #[error("{0}: {1}")]
    System(PathBuf, #[source] io::Error),
}

impl Refused {
    /// Whether somebody has put something in the way; otherwise the file system is full, read-only, not there …
    pub fn is_planted(&self) -> bool {
        !matches!(self, Refused::System(..))
    }

    /// Returns the sentence of a refusal, with what would follow from using the directory.
    pub fn consequence(&self) -> String {
        match self {
            Refused::Named(..) | Refused::System(..) => self.to_string(),
            _ => format!("{self}, so what the job keeps there would be in others' hands"),
        }
    }

    /// What can be done about one in [`super::in_memory`]'s place.
    pub fn remedy(&self) -> &'static str {
        match self {
            Refused::Open(..) => "chmod it to 700",
            Refused::Exchangeable(..) => "have the administrator chmod it to 1777",
            Refused::Foreign(..) => {
                "have the administrator remove it, or name another directory of this node in \
                 UNDERSTUDY_RUNTIME_DIR"
            }
            Refused::Link(..) | Refused::NotADirectory(..) => {
                "remove it, or have the administrator do it, or name another directory of this \
                 node in UNDERSTUDY_RUNTIME_DIR"
            }
            Refused::Named(..) => {
                "name a directory on a file system of this node that is yours, or has mode 1777"
            }
            Refused::System(..) => "free or mount the file system",
        }
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
