//! What the leader of a job and its nodes say to each other.
//!
//! ```text
//!   node (one manager each)                              leader (understudy-protocol)
//!     what processes and guardians say, and their ends ── Report ──► decides
//!     starts, kills, interrupts, hands out  ◄──────────── Order ────
//! ```

use crate::line::{FromGuardian, ToGuardian, ToManager};

/// What a node tells the leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// A guardian has come.
    Came {
        rank: u32,
        workers: u32,
        spares: u32,
    },
    /// A guardian has gone, and its processes with it.
    Gone {
        rank: u32,
    },
    /// A process uses MPI.
    Called {
        number: u32,
    },
    Process {
        number: u32,
        said: ToManager,
    },
    Guardian(FromGuardian),
    /// The MPI library of a process has given up.
    Broke {
        number: u32,
    },
    /// The job cannot go on here; why.
    GivesUp(String),
}

/// What the leader wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    Guardian {
        rank: u32,
        message: ToGuardian,
    },
    /// A process is let in, for a generation, or not.
    Admit {
        number: u32,
        generation: Option<u32>,
    },
    /// Processes are to leave their MPI library for this generation.
    Announce {
        generation: u32,
    },
    /// A process gets the files of a dead one.
    Inherit {
        heir: u32,
        from: u32,
    },
    /// The generation before ends, and this one begins with these processes.
    Begin {
        generation: u32,
        ranks: Vec<u32>,
    },
    /// The program is at its end; `is_good`: processes are to be told.
    End {
        is_good: bool,
    },
}
