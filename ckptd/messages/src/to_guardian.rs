//! Messages from a manager to a guardian.

use crate::ChildStart;
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// A message from a manager to a guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToGuardian {
    /// Starts a process of the program.
    ///
    /// `is_restart` is false for the first process of each number that the job starts with.
    Start {
        number: ProcessNumber,
        is_restart: bool,
    },
    Kill {
        number: ProcessNumber,
    },
    /// Exits with this status.
    Leave {
        status: i32,
    },
    /// Gives the replica store of `from` to `adopter`.
    ///
    /// The files of the store come with the message; they contain the replica of `worker` and those
    /// that `worker` stores as a buddy, and must outlive `adopter`. `status` is the status of
    /// `from` as wait(2) returns it.
    AdoptStore {
        adopter: ProcessNumber,
        from: ProcessNumber,
        worker: Worker,
        status: i32,
    },
    /// Releases the state of a process that has ended.
    ReleaseState {
        number: ProcessNumber,
    },
    /// A process of this node has resumed the program in a generation of this manager.
    Resumed,
    /// Answer to [`crate::Hello::Guardian`]; the manager's pidfd comes with the message.
    Joined {
        role: ManagerRole,
        /// Process id of the manager.
        pid: u32,
        /// Message to a manager that replaces this one on a node without the leader.
        ///
        /// The connection to the leader and the pipe to the keeper of the node's fence come with
        /// the message then, before the pidfd.
        duty: Option<Vec<u8>>,
    },
    /// Returned heartbeat.
    Beat,
    /// Starts a process that the program has spawned.
    ///
    /// A descriptor for the process's MPI library comes with the message if the library needs one.
    StartChild(ChildStart),
}

/// Consequence of a manager's death.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ManagerRole {
    /// The manager of a job on one node: another one takes its place.
    Alone,
    /// The manager with the leader of a job on several nodes: the job ends.
    Leader,
    /// The manager of another node, which the leader observes: another one takes its place.
    ///
    /// The node is lost if the manager does not answer.
    Follower,
}
