//! What the leader of a job and its nodes say to each other.
//!
//! ```text
//!   node (one manager each)                              leader (understudy-protocol)
//!     what processes and guardians say, and their ends ── Report ──► decides
//!     starts, kills, interrupts, hands out  ◄──────────── Order ────
//!     what its servers ask of other nodes' ── Fence, Modex ────────► collects, passes on
//!     what they are answered ◄─────────────────────────── Answer ───
//! ```
//!
//! The leader's own node hears it directly, others over a [`super::link`].

use bincode::{Decode, Encode};
use std::time::Duration;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Rank, Worker};
use understudy_pmi::{Members, Name, Purpose};
use understudy_protocol::Known;
use understudy_wire::line::{Ended, ToGuardian, ToManager};

/// What a node tells the leader.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Report {
    /// A guardian has come; `is_again`: it has had another manager.
    Came {
        rank: Guardian,
        workers: u32,
        spares: u32,
        replenishes: bool,
        is_again: bool,
    },
    /// It has a process that it has started for another manager.
    Knows {
        rank: Guardian,
        number: ProcessNumber,
        known: Known,
    },
    /// It has told all that it has.
    Told {
        rank: Guardian,
    },
    /// A guardian has gone, and its processes with it.
    Gone {
        rank: Guardian,
    },
    /// A process uses MPI.
    Called {
        number: ProcessNumber,
    },
    Process {
        number: ProcessNumber,
        said: ToManager,
    },
    Ended(Ended),
    /// The MPI library of a process has given up in a generation.
    Broke {
        number: ProcessNumber,
        generation: Generation,
    },
    /// A process that the program has spawned has ended with this status; so is the job to.
    Abort(i32),
    /// One has ended with this status, which is that of the job if all else ends well.
    Spawned(i32),
    /// The job cannot go on here; why.
    GivesUp(String),
    /// This node's ranks have come to a fence ([`understudy_pmi::Fence`]).
    Fence {
        /// By which the node knows what the answer belongs to.
        id: u64,
        fence: FenceOf,
        bytes: Vec<u8>,
    },
    /// A rank of this node wants what one of another node has put ([`understudy_pmi::Modex`]).
    Modex {
        id: u64,
        of: Name,
        rank: Rank,
    },
    /// The program has asked for so many processes here; all nodes shall know their namespace.
    Join {
        id: u64,
        name: Name,
        size: u32,
    },
    /// A process of this node wants to see what these workers show, who are where this process is.
    Look {
        id: u64,
        process: ProcessNumber,
        workers: Vec<Worker>,
    },
    /// That namespace is no more.
    Forget {
        name: Name,
    },
    /// The answer to an [`Order::Modex`], [`Order::Join`] or [`Order::Look`].
    Answer {
        id: u64,
        bytes: Option<Vec<u8>>,
    },
}

/// Which fence of which ranks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct FenceOf {
    pub purpose: Purpose,
    pub members: Members,
    pub number: u64,
}

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
