//! Processes that the program spawns (`MPI_Comm_spawn`).

use bincode::{Decode, Encode};
use std::path::PathBuf;

/// A program that processes are started of.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ChildProgram {
    /// As the program names it; searched for in PATH if it has no slash.
    pub file: String,
    /// The first is its name.
    pub arguments: Vec<String>,
    pub variables: Vec<(String, String)>,
    pub directory: Option<PathBuf>,
    pub processes: u32,
}

/// A process that the program has asked for (`MPI_Comm_spawn`).
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct ChildStart {
    /// By which it is known from now on.
    pub id: u64,
    /// Equal when a worker that has gone back starts it again: what it has printed is not printed
    /// twice.
    pub name: String,
    pub program: ChildProgram,
    /// Must be in its environment.
    pub variables: Vec<(String, String)>,
    /// Are put there if the user has set nothing of that name.
    pub defaults: Vec<(String, String)>,
}

/// What has become of one.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ChildNews {
    /// Comes with the process itself (pidfd_open(2)): it may have ended already.
    Started,
    NotStarted {
        why: String,
    },
    /// As a shell tells it; and whether a signal has ended it.
    Ended {
        status: i32,
        is_killed: bool,
    },
}
