//! Messages of a process of the program to its manager.

use bincode::{Decode, Encode};
use understudy_numbers::{Generation, ProcessNumber, Worker};

/// What a process says.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToManager {
    /// MPI is as before `MPI_Init`, for this generation; for any, if this process has not been in
    /// one: it is a spare until it is.
    Ready {
        generation: Generation,
    },
    /// This worker goes on with the program in this generation: if it is protected, all can go back
    /// to an epoch.
    Running {
        generation: Generation,
    },
    /// This generation has failed here, although nobody has died.
    Failed {
        generation: Generation,
    },
    /// This worker is in `MPI_Finalize`, and needs the others no more.
    AtEnd {
        generation: Generation,
    },
    /// With files that have copies of this worker and of its partners: they are to outlive this
    /// process. Said to the guardian first, as the next.
    Keeps {
        worker: Worker,
    },
    /// What it has handed over, or inherited, is not needed any more.
    KeepsNothing,
    /// So many spares more are wanted.
    Replenish {
        spares: u32,
    },
    /// This process can be asked which spares should take parts.
    CanChoose,
    Wish {
        spare: ProcessNumber,
    },
    /// That is all, for this generation.
    HasChosen {
        generation: Generation,
    },
    /// The whole job is to end with this status.
    Abort {
        status: i32,
    },
    /// This worker is about to start processes (`MPI_Comm_spawn`), for the time with this number.
    Spawns {
        worker: Worker,
        number: u64,
    },
    /// Those that it has started up to this time are behind a cut of which it does not know yet
    /// whether it counts.
    Captured {
        worker: Worker,
        number: u64,
    },
    /// Those that it has started up to this time do not go back with it any more.
    Settled {
        worker: Worker,
        number: u64,
    },
    /// It has gone back to where it had started processes as often as this.
    WentBack {
        worker: Worker,
        number: u64,
    },
    /// Requests the boards (`understudy_relay::board`) of these workers.
    ///
    /// All of them are on the node of this process.
    Look {
        id: u64,
        process: ProcessNumber,
        workers: Vec<Worker>,
    },
}
