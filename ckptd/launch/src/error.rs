//! Errors of the processes of the launcher.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use understudy_catalogue::message;
use understudy_formats::private_directories;
use understudy_pmi::system_message;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the MPI library's server, or of locating the program's MPI library.
    #[error(transparent)]
    Pmi(#[from] understudy_pmi::Error),
    /// The program cannot be executed.
    #[error("{}", message::not_executable(.0.display()))]
    NoProgram(PathBuf),
    /// Guardians of other nodes cannot be reached.
    #[error("{}", message::SEVERAL_NODES_WITHOUT_LAUNCHER)]
    Nodes,
    /// `ckptd meet` has failed and has printed the reason.
    #[error("{}", message::NODES_NOT_MET)]
    NoMeeting,
    /// No worker is left to run the program.
    #[error("{}", message::only_spares(.spares, .size))]
    OnlySpares { size: u32, spares: u32 },
    /// A file with settings cannot be read, or has a wrong line.
    #[error("{0}")]
    SettingsFile(String),
    /// The list of hosts is malformed.
    #[error("{}", message::bad_hosts(.0))]
    Hosts(String),
    /// The hosts have too few slots.
    #[error("{}", message::too_few_slots(.slots, .size))]
    Slots { slots: u32, size: u32 },
    /// The leader on the job's first node cannot be reached.
    #[error("{}", message::leader_not_reached(.0))]
    NoLeader(io::Error),
    /// UNDERSTUDY_PORTS is malformed.
    #[error("{0}")]
    WrongPorts(String),
    /// The leader cannot listen at any of these ports.
    #[error("{}", message::no_free_port(ports.start(), ports.end(), source))]
    NoPort {
        ports: RangeInclusive<u16>,
        source: io::Error,
    },
    /// The peer is another build of ckptd with another protocol.
    #[error("{}", message::CKPTD_BUILD)]
    Build,
    /// The job already has a manager on this host.
    #[error("{}", message::HOST_NAMED_TWICE)]
    SameHost,
    /// The manager has died and is not replaced, or the job is over.
    #[error("{}", message::MANAGER_GONE)]
    NoManager,
    /// Each manager that was started has died.
    #[error("{}", message::managers_died(.0))]
    Managers(u32),
    /// A file of understudy is missing; ld.so would start the program without it.
    #[error("{}", message::file_missing(.0.display()))]
    Missing(PathBuf),
    /// The directory of this user in memory is unsafe or misconfigured.
    #[error("{0}")]
    RefusedDirectory(private_directories::DirectoryRefusal),
    /// The directory of this user in memory cannot be made.
    #[error("{}", message::no_shared_memory(.0))]
    NoSharedMemory(private_directories::DirectoryRefusal),
    #[error("{}", system_message(.what, .source))]
    System { what: String, source: io::Error },
}

impl Error {
    /// Returns true if the program can run without understudy because no process was started yet.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Error::RefusedDirectory(_) | Error::NoSharedMemory(_))
    }

    /// Returns a function for `map_err` that wraps the error of a system call.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        |source| Error::System { what, source }
    }
}
