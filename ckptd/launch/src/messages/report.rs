//! Reports of a node to the leader.

use bincode::{Decode, Encode};
use understudy_numbers::{Generation, Guardian, ProcessNumber, Rank, Worker};
use understudy_pmi::{GenerationName, Members, Purpose};
use understudy_protocol::{GuardianSilence, ProcessHistory};
use understudy_wire::line::{Activity, ProcessEnd, ReplaceTarget, ToManager};

/// A report of a node to the leader.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Report {
    /// A guardian has joined; `had_manager` is true if it has had an earlier manager.
    GuardianJoined {
        rank: Guardian,
        workers: u32,
        spares: u32,
        replenishes: bool,
        had_manager: bool,
    },
    /// The guardian has a process that it has started for an earlier manager.
    ProcessReported {
        rank: Guardian,
        number: ProcessNumber,
        history: ProcessHistory,
    },
    /// The guardian has reported all its processes.
    AllReported {
        rank: Guardian,
    },
    /// A guardian has died with its processes.
    GuardianDied {
        rank: Guardian,
    },
    /// A process has begun to use MPI.
    Registered {
        number: ProcessNumber,
    },
    Process {
        number: ProcessNumber,
        message: ToManager,
    },
    Ended(ProcessEnd),
    /// A process of this node has got a signal that requests a checkpoint on disk.
    CheckpointRequested {
        signal: i32,
    },
    /// The MPI library of a process has aborted in a generation.
    LibraryAborted {
        number: ProcessNumber,
        generation: Generation,
    },
    /// A spawned process has failed with this status, with which the job ends.
    Abort(i32),
    /// A spawned process has failed with this status after `MPI_Finalize`.
    ///
    /// The job has this status if all other processes succeed.
    Spawned(i32),
    /// The job cannot continue on this node, for this reason.
    CannotContinue(String),
    /// This node's ranks have entered a fence ([`understudy_pmi::Fence`]).
    Fence {
        /// Identifier of the request, which the answer repeats.
        id: u64,
        fence: FenceId,
        bytes: Vec<u8>,
    },
    /// A rank of this node requests data of a rank on another node
    /// ([`understudy_pmi::ModexRequest`]).
    Modex {
        id: u64,
        namespace: GenerationName,
        rank: Rank,
    },
    /// Processes were spawned on this node; all nodes must register their namespace.
    Join {
        id: u64,
        name: GenerationName,
        size: u32,
    },
    /// A process requests boards of these workers, which are on the node of `process`.
    ReadBoards {
        id: u64,
        process: ProcessNumber,
        workers: Vec<Worker>,
    },
    /// A process has become inactive, or is active again (`None`).
    Activity {
        number: ProcessNumber,
        activity: Option<Activity>,
    },
    /// A guardian does not answer, or answers again.
    GuardianSilence {
        rank: Guardian,
        /// Process id of the guardian.
        pid: u32,
        silence: GuardianSilence,
    },
    /// The user requests the replacement of processes.
    ReplacementRequested {
        /// Identifier of the request, which the answer repeats.
        id: u64,
        target: ReplaceTarget,
    },
    /// The namespace of spawned processes has ended.
    Forget {
        name: GenerationName,
    },
    /// The answer to an [`super::ServerOrder::Modex`], [`super::ServerOrder::Join`] or
    /// [`super::ServerOrder::ReadBoards`].
    Answer {
        id: u64,
        bytes: Option<Vec<u8>>,
    },
}

/// Identification of a fence and its ranks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Encode, Decode)]
pub struct FenceId {
    pub purpose: Purpose,
    pub members: Members,
    pub number: u64,
}
