//! Why the process manager cannot do what it is asked for.

use super::pmix::abi::{Status, Version};
use std::io;
use std::path::PathBuf;
use understudy_catalogue::message;
use understudy_formats::private;

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
    /// It cannot be executed.
    #[error("{}", message::not_executable(.0.display()))]
    NoProgram(PathBuf),
    /// Nothing says which rank this process is.
    #[error("{}", message::NO_LAUNCHER)]
    NotLaunched,
    /// Guardians of other nodes cannot be reached.
    #[error("{}", message::SEVERAL_NODES_WITHOUT_LAUNCHER)]
    Nodes,
    /// `ckptd meet` has said why.
    #[error("{}", message::NODES_NOT_MET)]
    NoMeeting,
    /// Nobody is left to run the program.
    #[error("{}", message::only_spares(.spares, .size))]
    OnlySpares { size: u32, spares: u32 },
    /// A list of hosts that is none.
    #[error("{}", message::bad_hosts(.0))]
    Hosts(String),
    /// They have no room.
    #[error("{}", message::too_few_slots(.slots, .size))]
    Slots { slots: u32, size: u32 },
    /// Of the job's first node.
    #[error("{}", message::leader_not_reached(.0))]
    NoLeader(io::Error),
    /// It has another protocol.
    #[error("{}", message::CKPTD_BUILD)]
    Build,
    /// A second manager of the same job.
    #[error("{}", message::HOST_NAMED_TWICE)]
    SameHost,
    #[error("{}", message::MANAGER_GONE)]
    NoManager,
    /// Each that was started has died, too.
    #[error("{}", message::managers_died(.0))]
    Managers(u32),
    /// A file of the layer. ld.so would start the program without it.
    #[error("{}", message::file_missing(.0.display()))]
    Missing(PathBuf),
    /// The directory of this user in memory is somebody else's.
    #[error("{0}")]
    Planted(private::Refused),
    /// The directory of this user in memory cannot be made.
    #[error("{}", message::no_shared_memory(.0))]
    NoSharedMemory(private::Refused),
    #[error("{}", system_message(.what, .source))]
    System { what: String, source: io::Error },
}

impl Error {
    /// Returns true if the program can run without the layer, in which nothing has begun.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Error::Planted(_) | Error::NoSharedMemory(_))
    }

    /// For `map_err`: a system call that has failed.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::System { what, source }
    }
}

/// Returns the text for a failed call of the system.
fn system_message(what: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => message::process_limit(what, error).to_string(),
        _ => message::system_call_failed(what, error).to_string(),
    }
}
