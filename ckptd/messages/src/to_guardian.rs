//! Messages from a manager to a guardian.

use crate::ChildStart;
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// A message from a manager to a guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToGuardian {
    /// Starts a process of the program; `anew` unless this is the first start.
    Start {
        number: ProcessNumber,
        anew: bool,
    },
    Kill {
        number: ProcessNumber,
    },
    /// Exits with this status.
    Leave {
        status: i32,
    },
    /// Gives the replica store of `from` to `heir`.
    ///
    /// The files of the store come with the message; they contain a replica of `worker` and must
    /// outlive `heir`. `status` is the status with which `from` has ended.
    Inherit {
        heir: ProcessNumber,
        from: ProcessNumber,
        worker: Worker,
        status: i32,
    },
    /// Releases the state of a process that has ended.
    Forget {
        number: ProcessNumber,
    },
    /// All processes have resumed the program in a generation since this manager was started.
    GoesOn,
    /// No other manager can replace this one.
    IsLast,
    /// Starts a process that the program has spawned.
    ///
    /// A descriptor for the process's MPI library comes with the message if the library needs one.
    StartChild(ChildStart),
}
