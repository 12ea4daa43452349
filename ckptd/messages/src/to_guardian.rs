//! Messages of a manager to a guardian.

use crate::ChildStart;
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// What the manager says to a guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToGuardian {
    /// Start a process of the program; `anew`: not for the first time.
    Start {
        number: ProcessNumber,
        anew: bool,
    },
    Kill {
        number: ProcessNumber,
    },
    /// End with this status.
    Leave {
        status: i32,
    },
    /// With the files that `from` had handed over, a copy of this worker, before it ended with this
    /// status: `heir` gets them, and they are to outlive it.
    Inherit {
        heir: ProcessNumber,
        from: ProcessNumber,
        worker: Worker,
        status: i32,
    },
    /// What this process has left, which has ended, is not needed any more.
    Forget {
        number: ProcessNumber,
    },
    /// All have gone on in a generation since this manager was started.
    GoesOn,
    /// No other manager can take this one's place.
    IsLast,
    /// Start a process that the program has asked for, with the descriptor that its MPI library
    /// needs, if that needs one.
    StartChild(ChildStart),
}
