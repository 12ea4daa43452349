//! Failures of servers and clients.

use crate::pmix::abi::{Status, Version};
use std::io;
use std::path::PathBuf;
use understudy_catalogue::message;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither Open MPI nor MPICH.
    #[error("{}", message::not_an_mpi_program(.0.display()))]
    NotMpi(PathBuf),
    /// The dynamic loader does not say what it would load.
    #[error("{}", message::libraries_not_listed(.path.display(), .why))]
    Unlisted { path: PathBuf, why: String },
    /// dlopen(3) or dlsym(3).
    #[error("{}", message::libpmix_not_usable(.0))]
    Load(#[from] libloading::Error),
    /// A version whose structures are not known.
    #[error("{}", message::pmix_version(.path.display(), .version, Version::OLDEST, Version::NEWEST_MAJOR))]
    Version { path: PathBuf, version: String },
    /// libpmix keeps its state in global variables.
    #[error("this process has started a PMIx server before")]
    Again,
    /// This process has been started by another PMIx launcher, whom libpmix would call.
    #[error("{}", message::other_pmix_launcher(.0))]
    Inherited(&'static str),
    #[error("{}", message::pmix_call_failed(.call, .status))]
    Pmix { call: &'static str, status: Status },
    /// Names go into files' names and lists.
    #[error("{}", message::name_not_for_pmix(.what, .name, .most))]
    BadName {
        what: &'static str,
        name: String,
        most: usize,
    },
    /// A host of the placement does not exist, or there are no ranks.
    #[error("a placement needs at least one rank, and every rank one of its hosts")]
    BadPlacement,
    /// Its name has been used before.
    #[error("generation {0} exists already")]
    Exists(String),
    /// It has not begun, or is over.
    #[error("there is no generation {0}")]
    Unknown(String),
    /// It is on another node, or there are fewer ranks.
    #[error("rank {rank} of generation {generation} is not on this node")]
    NotHere { generation: String, rank: u32 },
    /// Nothing says which rank this process is.
    #[error("{}", message::NO_LAUNCHER)]
    NotLaunched,
    #[error("{}", system_message(.what, .source))]
    System { what: String, source: io::Error },
}

impl Error {
    /// Returns a conversion, for `map_err`, of the failure of a system call.
    pub fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::System { what, source }
    }
}

/// Returns the text for a failed call of the system.
pub fn system_message(what: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => message::process_limit(what, error).to_string(),
        _ => message::system_call_failed(what, error).to_string(),
    }
}
