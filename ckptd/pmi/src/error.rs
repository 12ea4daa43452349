//! Failures of servers and clients.

use crate::pmix::abi::{Status, Version};
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither Open MPI nor MPICH.
    #[error(
        "{0} is not linked with libmpi.so.40 (Open MPI), libmpi.so.12, libmpich.so.12 or libmpi_abi.so.1 (MPICH)"
    )]
    NotMpi(PathBuf),
    /// The dynamic loader does not say what it would load.
    #[error("{path}: the dynamic loader cannot list its libraries: {why}")]
    Unlisted { path: PathBuf, why: String },
    /// dlopen(3) or dlsym(3).
    #[error("libpmix cannot be used: {0}")]
    Load(#[from] libloading::Error),
    /// A version whose structures are not known.
    #[error("{path} is PMIx {version}; known are {oldest} to {newest}.x", oldest = Version::OLDEST, newest = Version::NEWEST_MAJOR)]
    Version { path: PathBuf, version: String },
    /// libpmix keeps its state in global variables.
    #[error("this process has started a PMIx server before")]
    Again,
    /// This process has been started by another PMIx launcher, whom libpmix would call.
    #[error("the environment has {0}, of another PMIx launcher")]
    Inherited(&'static str),
    #[error("{call}: {status}")]
    Pmix { call: &'static str, status: Status },
    /// Names go into files' names and lists.
    #[error(
        "{what} '{name}' is empty, longer than {most} bytes, or has characters that PMIx cannot carry"
    )]
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
    #[error("this process has not been started by a launcher of MPI programs")]
    NotLaunched,
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
}

impl Error {
    /// What a user can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::NotMpi(_) => {
                "build the program with the mpicc of Open MPI or MPICH, or name the MPI library it will load"
            }
            Error::Unlisted { .. } => {
                "name a program that can be run; set LD_LIBRARY_PATH if it needs that"
            }
            Error::Load(_) => "repair that installation of Open MPI, or load its module",
            Error::Version { .. } => {
                "use an Open MPI with a known PMIx: 5.0.x has one, and so do the wheels on PyPI"
            }
            Error::Again => {
                "use the server that is there; generations of several jobs may be in it"
            }
            Error::Inherited(_) => "start this process without that variable",
            Error::Pmix { .. } => {
                "see what libpmix has printed; PMIX_MCA_… variables or ~/.pmix/mca-params.conf may stand in the way"
            }
            Error::BadName { .. } => "use letters, digits, '-', '_' and '.'",
            Error::BadPlacement | Error::Exists(_) | Error::Unknown(_) | Error::NotHere { .. } => {
                "none for a user: the caller is wrong"
            }
            Error::NotLaunched => "start it with mpirun, or with understudy run",
            Error::System { source, .. } => Error::remedy_of(source),
        }
    }

    /// Returns what a user can do about a system call that has failed.
    pub fn remedy_of(source: &io::Error) -> &'static str {
        match source.raw_os_error() {
            Some(libc::EAGAIN) => {
                "let this user have more processes and threads (ulimit -u, or pids.max of the control group)"
            }
            _ => "free what the system lacks",
        }
    }

    /// Returns a conversion, for `map_err`, of the failure of a system call.
    pub fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::System { what, source }
    }
}
