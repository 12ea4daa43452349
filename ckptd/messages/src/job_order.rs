//! Orders of the leader about the processes of the job.

use crate::ToGuardian;
use bincode::{Decode, Encode};
use std::time::Duration;
use understudy_numbers::{Generation, Guardian, ProcessNumber};

/// An order about the processes of the job; `B` describes a generation that begins.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum JobOrder<B> {
    /// Sends a message to a guardian.
    ///
    /// For [`ToGuardian::Kill`] the guardian may have exited: its node kills the process then.
    Guardian { rank: Guardian, message: ToGuardian },
    /// Admits a process that uses MPI.
    ///
    /// The generation is `None` at the end of the job.
    Admit {
        number: ProcessNumber,
        generation: Option<Generation>,
    },
    /// Takes every living process out of its MPI library for this generation.
    Announce { generation: Generation },
    /// Counts an idle spare's death as a failure, in all processes.
    CountSpareDeath,
    /// Requests a checkpoint on disk, in all processes.
    ///
    /// The time is in microseconds since 1970.
    RequestCheckpoint { signal: i32, time_us: u64 },
    /// Requests placement hints from a process.
    ///
    /// The hints name spares that should take over from failed processes.
    RequestPlacementHints {
        number: ProcessNumber,
        failed: Vec<ProcessNumber>,
    },
    /// Gives a process the replica store of a dead process of its node.
    ///
    /// From then on the store belongs to `adopter`.
    AdoptStore {
        adopter: ProcessNumber,
        from: ProcessNumber,
    },
    /// Ends the last generation and begins another one.
    Begin(B),
    /// Kills a guardian that does not answer, with its processes.
    KillGuardian { rank: Guardian },
    /// Ends a node.
    EndNode(NodeEnd),
    /// Ends the program; after a good end, another program of a script may follow.
    ///
    /// Processes receive this order only if `is_good`.
    End { is_good: bool },
}

/// Way in which a node leaves the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum NodeEnd {
    /// The node ends at once, and then counts as lost.
    Now,
    /// The workers of the node stand still after the commit of the next checkpoint.
    ///
    /// With an even number all earlier orders are withdrawn. Numbers never decrease.
    AtCheckpoint { order: u32 },
}

/// The start of a generation, except its ranks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct GenerationStart {
    pub generation: Generation,
    /// True if the job begins with this generation.
    pub is_first: bool,
    /// Number of spares that are left.
    pub spares: u32,
    /// Time since the failure from which the program has not recovered.
    pub since_failure: Option<Duration>,
}
