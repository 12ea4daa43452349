//! Processes that the program spawns (`MPI_Comm_spawn`).

use bincode::{Decode, Encode};
use std::path::PathBuf;

/// Program and arguments of spawned processes.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ChildProgram {
    /// File name; searched for in PATH if the name has no slash.
    pub file: String,
    /// Argument list; the first argument is the name of the program.
    pub arguments: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub directory: Option<PathBuf>,
    pub processes: u32,
}

/// Start of a spawned process (`MPI_Comm_spawn`).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ChildStart {
    /// Identifier used in all later messages about the process.
    pub id: u64,
    /// Name of the process's output.
    ///
    /// Equal when a worker that was rolled back spawns the process again, so that output which has
    /// been printed is not printed twice.
    pub name: String,
    pub program: ChildProgram,
    /// Variables that the process's environment must contain.
    pub variables: Vec<(String, String)>,
    /// Variables that are added only if the user has not set them.
    pub defaults: Vec<(String, String)>,
}

/// Change in the state of a spawned process.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ChildNews {
    /// The process runs; its descriptor (pidfd_open(2)) comes with the message.
    ///
    /// The process may have exited already.
    Started,
    NotStarted {
        why: String,
    },
    /// Exit status as a shell reports it; `is_killed` if a signal ended the process.
    Ended {
        status: i32,
        is_killed: bool,
    },
}
