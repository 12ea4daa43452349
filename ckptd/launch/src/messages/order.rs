//! Orders of the leader to a node.

use bincode::{Decode, Encode};
use std::time::Duration;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Rank, Worker};
use understudy_pmi::Name;
use understudy_wire::line::ToGuardian;

/// What the leader wants done.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Order {
    Guardian {
        rank: Guardian,
        message: ToGuardian,
    },
    /// A process is let in, for a generation, or not.
    Admit {
        number: ProcessNumber,
        generation: Option<Generation>,
    },
    /// Processes are to leave their MPI library for this generation.
    Announce {
        generation: Generation,
    },
    /// An idle spare has died.
    CountSpare,
    /// A process is asked which spares should take parts.
    Ask {
        number: ProcessNumber,
        fallen: Vec<ProcessNumber>,
    },
    /// A process gets the files of a dead one.
    Inherit {
        heir: ProcessNumber,
        from: ProcessNumber,
    },
    /// The generation before ends, and this one begins.
    Begin(Beginning),
    /// The program is at its end; `is_good`: processes are to be told.
    End {
        is_good: bool,
    },
    /// What a rank of this node has put is wanted elsewhere.
    Modex {
        id: u64,
        of: Name,
        rank: Rank,
    },
    /// There are processes that the program has asked for on another node.
    Join {
        id: u64,
        joining: Joining,
    },
    /// A worker that has had processes started on this node is on another one, and has gone back to where it had done so as often as this.
    WentBack {
        worker: Worker,
        number: u64,
    },
    /// What these workers of this node show is wanted elsewhere.
    Look {
        id: u64,
        workers: Vec<Worker>,
    },
    /// There are not any more.
    Forget {
        name: Name,
    },
    /// The answer to what the node has asked for.
    Answer {
        id: u64,
        bytes: Option<Vec<u8>>,
    },
}

/// Processes that the program has asked for.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Joining {
    pub name: Name,
    pub size: u32,
    pub host: String,
}

/// A generation that begins.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Beginning {
    /// The job's name, to which the generation's number is added ([`understudy_pmi::Name`]).
    pub job: String,
    pub generation: Generation,
    /// The job begins with it.
    pub is_first: bool,
    /// How many spares are left.
    pub spares: u32,
    /// Time since the failure that the program has not recovered from.
    pub since_failure: Option<Duration>,
    /// The process of each rank, and where in `hosts` it is.
    pub ranks: Vec<(ProcessNumber, u32)>,
    pub hosts: Vec<String>,
}
