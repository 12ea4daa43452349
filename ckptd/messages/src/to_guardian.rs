//! Messages from a manager to a guardian.

use crate::ChildStart;
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// A message from a manager to a guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToGuardian {
    /// Starts a process of the program; `is_restart` is true unless this is the first start.
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
    /// The files of the store come with the message; they contain a replica of `worker` and must
    /// outlive `adopter`. `status` is the status with which `from` has ended.
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
    /// All processes have resumed the program in a generation since this manager was started.
    Resumed,
    /// No other manager can replace this one.
    IsLast,
    /// Starts a process that the program has spawned.
    ///
    /// A descriptor for the process's MPI library comes with the message if the library needs one.
    StartChild(ChildStart),
}
