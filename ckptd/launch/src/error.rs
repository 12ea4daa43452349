//! Why the process manager cannot do what it is asked for.

use std::io;
use std::path::PathBuf;
use understudy_formats::private;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of the servers of the MPI library, or of its program.
    #[error(transparent)]
    Pmi(#[from] understudy_pmi::Error),
    /// It cannot be executed.
    #[error("{0} is no program that can be run, nor is one of that name in PATH")]
    NoProgram(PathBuf),
    /// Guardians of other nodes cannot be reached.
    #[error(
        "the job has ranks on several nodes, and its launcher does not let them find each other"
    )]
    Nodes,
    /// `ckptd meet` has said why.
    #[error("the nodes of the job do not find each other")]
    NoMeeting,
    /// Nobody is left to run the program.
    #[error("with {spares} spares (UNDERSTUDY_SPARES) none of the {size} ranks is a worker")]
    OnlySpares { size: u32, spares: u32 },
    /// A list of hosts that is none.
    #[error("{0}")]
    Hosts(String),
    /// They have no room.
    #[error("the hosts have {slots} slot(s), and {size} processes are to be started")]
    Slots { slots: u32, size: u32 },
    /// Of the job's first node.
    #[error("the leader of the job cannot be reached: {0}")]
    NoLeader(io::Error),
    /// It has another protocol.
    #[error("this host has another build of ckptd than the one that the job was started from")]
    Build,
    /// A second manager of the same job.
    #[error("two hosts of the job are this one")]
    SameHost,
    #[error("the process manager of this job has gone; the job ends")]
    NoManager,
    /// Each that was started has died, too.
    #[error("the process manager of this job has died {0} times before its processes could go on")]
    Managers(u32),
    /// A file of the layer. ld.so would start the program without it.
    #[error("{0} is not there")]
    Missing(PathBuf),
    /// The directory of this user in memory is somebody else's.
    #[error("{}", .0.consequence())]
    Planted(private::Refused),
    /// The directory of this user in memory cannot be made.
    #[error("the job needs a directory in /dev/shm ({0})")]
    NoSharedMemory(private::Refused),
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
}

impl Error {
    /// What a user can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::Pmi(error) => error.remedy(),
            Error::NoProgram(_) => "name an executable file",
            Error::Nodes | Error::NoMeeting => {
                "start it with mpirun, mpiexec, `srun --mpi=pmi2` or `understudy run --host`, or on one node"
            }
            Error::OnlySpares { .. } => "start more ranks (mpirun -n), or set UNDERSTUDY_SPARES=0",
            Error::Hosts(_) => "give hosts as a:2,b:2, or in a file with lines such as `a slots=2`",
            Error::Slots { .. } => "give a host more (name:N), or name another one",
            Error::NoLeader(_) => "let hosts of the job reach each other over TCP, on any port",
            Error::Build => "install the same build everywhere",
            Error::SameHost => "name each host once",
            Error::NoManager => "start the job again",
            Error::Managers(_) => {
                "the job ends; see what kills it (memory, a limit, what it has printed)"
            }
            Error::Missing(_) => "keep the layer's files together in one directory",
            Error::Planted(refused) => refused.remedy(),
            Error::NoSharedMemory(_) => {
                "mount a tmpfs there that this user can write to (mount -t tmpfs tmpfs /dev/shm; \
                 in a container: --shm-size, --ipc=host), or name another directory of this node \
                 in UNDERSTUDY_RUNTIME_DIR"
            }
            Error::System { source, .. } => understudy_pmi::Error::remedy_of(source),
        }
    }

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
