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

use crate::line::{Ended, ToGuardian, ToManager};
use bincode::{Decode, Encode};

/// What a node tells the leader.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Report {
    /// A guardian has come; `is_again`: it has had another manager.
    Came {
        rank: u32,
        workers: u32,
        spares: u32,
        replenishes: bool,
        is_again: bool,
    },
    /// It has a process that it has started for another manager.
    Knows {
        rank: u32,
        number: u32,
        known: Known,
    },
    /// It has told all that it has.
    Told {
        rank: u32,
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
    Ended(Ended),
    /// The MPI library of a process has given up in a generation.
    Broke {
        number: u32,
        generation: u32,
    },
    /// The job cannot go on here; why.
    GivesUp(String),
    /// This node's ranks have come to a fence ([`super::Fence`]).
    Fence {
        /// By which the node knows what the answer belongs to.
        id: u64,
        fence: FenceOf,
        bytes: Vec<u8>,
    },
    /// A rank of this node wants what one of another node has put ([`super::Modex`]).
    Modex {
        id: u64,
        generation: u32,
        rank: u32,
    },
    /// The answer to an [`Order::Modex`].
    Answer {
        id: u64,
        bytes: Option<Vec<u8>>,
    },
}

/// What another manager has known of a process ([`understudy_protocol::Known`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Known {
    pub generation: u32,
    pub is_heard: bool,
    pub has_played: bool,
    pub has_part: bool,
    pub is_protected: bool,
    pub has_ended: bool,
    pub keeps: Option<u32>,
    pub heir_of: Option<u32>,
}

/// Which fence of which ranks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct FenceOf {
    pub generation: u32,
    pub members: Vec<u32>,
    pub number: u64,
}

/// What the leader wants done.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
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
    /// A process is asked which spares should take parts.
    Ask {
        number: u32,
        fallen: Vec<u32>,
    },
    /// A process gets the files of a dead one.
    Inherit {
        heir: u32,
        from: u32,
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
        generation: u32,
        rank: u32,
    },
    /// The answer to what the node has asked for.
    Answer {
        id: u64,
        bytes: Option<Vec<u8>>,
    },
}

/// A generation that begins.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Beginning {
    /// The job's name, to which the generation's number is added ([`super::Name`]).
    pub job: String,
    pub generation: u32,
    /// The job begins with it.
    pub is_first: bool,
    /// How many spares are left.
    pub spares: u32,
    /// The process of each rank, and where in `hosts` it is.
    pub ranks: Vec<(u32, u32)>,
    pub hosts: Vec<String>,
}
