//! Messages from a process of the program to its manager.

use bincode::{Decode, Encode};
use std::path::PathBuf;
use understudy_numbers::{Generation, ProcessNumber, Worker};

/// A message from a process to its manager.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToManager {
    /// The MPI library is in its state before `MPI_Init`, for this generation.
    ///
    /// A process that has not been in a generation is a spare and is ready for any generation.
    Ready {
        generation: Generation,
    },
    /// This worker continues the program in this generation.
    ///
    /// All processes can be rolled back to a checkpoint if the worker is protected.
    Running {
        generation: Generation,
    },
    /// This generation has failed in this process although no process has died.
    Failed {
        generation: Generation,
    },
    /// This worker is in `MPI_Finalize` and does not need the other processes any more.
    AtEnd {
        generation: Generation,
    },
    /// This process has handed over a replica store.
    ///
    /// The files come with the message; they contain replicas of this worker and of the workers
    /// whose buddy it is, and must outlive the process. This message and
    /// [`ToManager::ReleaseReplicas`] are sent to the guardian first.
    StoreReplicas {
        worker: Worker,
    },
    /// The replica store of this process is not needed any more.
    ReleaseReplicas,
    /// Requests this number of additional spares.
    Replenish {
        spares: u32,
    },
    /// This process can give placement hints.
    CanGivePlacementHints,
    PlacementHint {
        spare: ProcessNumber,
    },
    /// All placement hints for this generation have been sent.
    PlacementHintsEnd {
        generation: Generation,
    },
    /// This process has got a signal that requests a checkpoint on disk.
    RequestCheckpoint {
        signal: i32,
    },
    /// Requests the end of the whole job with this status.
    Abort {
        status: i32,
    },
    /// This worker is about to spawn processes (`MPI_Comm_spawn`); `number` counts these calls.
    Spawns {
        worker: Worker,
        number: u64,
    },
    /// A cut was taken after the first `number` spawn calls of this worker.
    ///
    /// The commit of the cut is not decided yet.
    SpawnedCaptured {
        worker: Worker,
        number: u64,
    },
    /// Processes of the first `number` spawn calls are never rolled back with this worker again.
    SpawnedPermanent {
        worker: Worker,
        number: u64,
    },
    /// This worker was rolled back to a point after `number` spawn calls.
    RolledBack {
        worker: Worker,
        number: u64,
    },
    /// The job owns a directory of checkpoints by this file.
    ///
    /// The manager rewrites the file at intervals.
    OwnsDirectory {
        file: PathBuf,
    },
    /// This worker stands still after the commit of a checkpoint, as [`crate::NodeEnd`] orders.
    ///
    /// `order` is the number of the order.
    /// Sent again while the worker stands still. With `is_replicated` false the worker continues,
    /// because other nodes have not all replicas of this node's workers.
    CanLeave {
        generation: Generation,
        order: u32,
        is_replicated: bool,
    },
    /// Requests the boards (`understudy_relay::board`) of these workers.
    ///
    /// All of them are on the node of this process.
    ReadBoards {
        id: u64,
        process: ProcessNumber,
        workers: Vec<Worker>,
    },
}
