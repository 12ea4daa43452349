//! Workers and spares of the present MPI instance.

use crate::runtime_state::StateCell;
use std::sync::Arc;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_policy::redundancy::Redundancy;

/// Role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Worker(Worker),
    /// Joining process, which will take over from a failed worker.
    Joining,
}

/// Runtime's view of the job.
#[derive(Clone)]
pub struct World {
    /// Communicator that the program sees as `MPI_COMM_WORLD`.
    pub workers: RealComm,
    /// Communicator of all workers, for cuts, transfers of replicas, and commits.
    pub private: RealComm,
    /// Communicator of this process alone.
    pub own: RealComm,
    /// Role of this process.
    pub role: Role,
    /// Number of this process in the job.
    ///
    /// Equals the rank in the launcher's world if the launcher has started the process.
    pub process: ProcessNumber,
    pub worker_count: u32,
    /// Placement of replicas: the buddies of each worker.
    pub redundancy: Redundancy,
    /// Node of each process of all MPI instances so far, by process number.
    pub nodes: Vec<u64>,
    /// True if failures are recovered from, as long as `finalized` is false.
    pub protected: bool,
    /// True if `MPI_Finalize` has passed its last wait for other workers, or exit(3) has begun.
    pub finalized: bool,
    /// Number of recoveries so far.
    pub recoveries: u32,
    /// Process number of each worker.
    pub process_of: Vec<ProcessNumber>,
}

impl World {
    /// Returns the node of a worker's process.
    pub fn node_of(&self, worker: Worker) -> u64 {
        self.nodes[self.process_of[worker.index()].index()]
    }
}

/// Present view of the job.
pub struct WorldView {
    /// View of the job, or `None` before the end of `MPI_Init`.
    pub(super) view: StateCell<Option<Arc<World>>>,
}

impl WorldView {
    /// Returns the state at the start of the process.
    pub const fn start() -> WorldView {
        WorldView {
            view: StateCell::new(None),
        }
    }
}
