//! Errors of servers and clients.

use crate::pmix::abi::{Status, Version};
use std::io;
use std::path::PathBuf;
use understudy_catalogue::message;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program uses, or the named library is, neither Open MPI nor MPICH.
    #[error("{}", message::not_an_mpi_program(.0.display()))]
    NotMpi(PathBuf),
    /// The dynamic loader does not list the libraries of the program.
    #[error("{}", message::libraries_not_listed(.path.display(), .why))]
    Unlisted { path: PathBuf, why: String },
    /// Intel MPI's launcher does not report the processor and the placement.
    #[error("{}", message::intel_launcher_failed(.path.display(), .why))]
    IntelLauncher { path: PathBuf, why: String },
    /// Failure of dlopen(3) or dlsym(3).
    #[error("{}", message::libpmix_not_usable(.0))]
    Load(#[from] libloading::Error),
    /// Unsupported version: its structures have not been compared with `abi`.
    #[error("{}", message::pmix_version(.path.display(), .version, Version::OLDEST, Version::NEWEST_MAJOR))]
    Version { path: PathBuf, version: String },
    /// Second server in a process; libpmix keeps its state in global variables.
    #[error("this process has started a PMIx server before")]
    SecondServer,
    /// This process was started by another PMIx launcher, to which libpmix would connect.
    #[error("{}", message::other_pmix_launcher(.0))]
    Inherited(&'static str),
    #[error("{}", message::pmix_call_failed(.call, .status))]
    Pmix { call: &'static str, status: Status },
    /// A name that cannot be used in file names and lists.
    #[error("{}", message::name_not_for_pmix(.what, .name, .most))]
    BadName {
        what: &'static str,
        name: String,
        most: usize,
    },
    /// The placement lacks ranks, the host of a rank, or this node.
    #[error("a placement needs at least one rank, and a host for every rank")]
    BadPlacement,
    /// The generation's name was used before.
    #[error("generation {0} exists already")]
    GenerationExists(String),
    /// The generation has not begun, or has ended.
    #[error("there is no generation {0}")]
    UnknownGeneration(String),
    /// The rank is on another node, or does not exist.
    #[error("rank {rank} of generation {generation} is not on this node")]
    NotHere { generation: String, rank: u32 },
    /// The launcher has not given this process a rank, or the requested data.
    #[error("{}", message::NO_LAUNCHER)]
    NotLaunched,
    #[error("{}", system_message(.what, .source))]
    System { what: String, source: io::Error },
}

impl Error {
    /// Returns a function for `map_err` that wraps the error of a system call.
    pub fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::System { what, source }
    }
}

/// Returns the message for a failed system call.
pub fn system_message(what: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => message::process_limit(what, error).to_string(),
        _ => message::system_call_failed(what, error).to_string(),
    }
}
