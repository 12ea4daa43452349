//! Workers and spares of the present MPI instance.

use crate::cell::Field;
use std::sync::Arc;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_policy::redundancy::Redundancy;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Worker(Worker),
    /// Is to get the part of a dead process.
    Newcomer,
}

/// The runtime's view of the job.
#[derive(Clone)]
pub struct World {
    /// What the program sees as MPI_COMM_WORLD.
    pub workers: RealComm,
    /// All workers, for cuts, shipping and commits.
    pub private: RealComm,
    /// Communicator of this process alone.
    pub own: RealComm,
    /// What this process does.
    pub part: Part,
    /// Its number, by which the job knows it: its rank in the launcher's world, if that has started
    /// it.
    pub process: ProcessNumber,
    pub worker_count: u32,
    /// Who holds whose copies.
    pub redundancy: Redundancy,
    /// The node of each process that has been in a generation, by its number.
    pub nodes: Vec<u64>,
    /// Whether failures are recovered from.
    pub protected: bool,
    /// MPI_Finalize has passed its last point of recovery.
    pub finalized: bool,
    /// How many recoveries there were.
    pub recoveries: u32,
    /// The number of the process that plays each worker.
    pub players: Vec<ProcessNumber>,
}

impl World {
    /// The node of a worker's process.
    pub fn node_of(&self, worker: Worker) -> u64 {
        self.nodes[self.players[worker.index()].index()]
    }
}

/// Present view of the job.
pub struct WorldView {
    /// `None` before the end of `MPI_Init`.
    pub(super) view: Field<Option<Arc<World>>>,
}

impl WorldView {
    /// State at the start of the process.
    pub const fn start() -> WorldView {
        WorldView {
            view: Field::new(None),
        }
    }
}
