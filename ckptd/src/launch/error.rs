//! Why the process manager cannot do what it is asked for.

use super::pmix::abi::{Status, Version};
use std::io;
use std::path::PathBuf;
use understudy_formats::private;

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
    /// It cannot be executed.
    #[error("{0} is no program that can be run, nor is one of that name in PATH")]
    NoProgram(PathBuf),
    /// Nothing says which rank this process is.
    #[error("this process has not been started by a launcher of MPI programs")]
    NotLaunched,
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
            Error::NoProgram(_) => "name an executable file",
            Error::NotLaunched => "start it with mpirun, or with understudy run",
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
            Error::System { source, .. } if source.raw_os_error() == Some(libc::EAGAIN) => {
                "let this user have more processes and threads (ulimit -u, or pids.max of the control group)"
            }
            Error::System { .. } => "free what the system lacks",
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
