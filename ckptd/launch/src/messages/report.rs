//! Reports of a node to the leader.

use bincode::{Decode, Encode};
use understudy_numbers::{Generation, Guardian, ProcessNumber, Rank, Worker};
use understudy_pmi::{Members, Name, Purpose};
use understudy_protocol::Known;
use understudy_wire::line::{Ended, ToManager};

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
    /// The answer to an [`super::ServerOrder::Modex`], [`super::ServerOrder::Join`] or
    /// [`super::ServerOrder::Look`].
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
