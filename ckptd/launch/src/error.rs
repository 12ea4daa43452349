//! Why the process manager cannot do what it is asked for.

use std::io;
use std::path::PathBuf;
use understudy_catalogue::message;
use understudy_formats::private;
use understudy_pmi::system_message;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of the servers of the MPI library, or of its program.
    #[error(transparent)]
    Pmi(#[from] understudy_pmi::Error),
    /// It cannot be executed.
    #[error("{}", message::not_executable(.0.display()))]
    NoProgram(PathBuf),
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
