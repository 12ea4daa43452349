//! State of recoveries.

use super::death_history::DeathHistory;
use super::placement_hint::PlacementHint;
use crate::runtime_state::StateCell;
use std::cell::Cell;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Epoch, Generation, Worker};
use understudy_policy::replica_inventory::ReplicaInventory;

/// Past recoveries, and the one under way.
pub struct RecoveryState {
    /// True if the program resumes from the end of MPI_Init.
    pub(super) resumed_in_init: Cell<bool>,
    /// True while a recovery runs.
    pub(super) is_under_way: Cell<bool>,
    /// Communicator of a joining process's first generation, until its first recovery takes it.
    pub(super) first_communicator: StateCell<Option<RealComm>>,
    /// Workers that were replaced, and whose node has no survivors.
    pub(super) on_silent_nodes: StateCell<Vec<Worker>>,
    /// Node that has left the job last, and the checkpoint at which it has left.
    pub(super) departure: Cell<Option<(u64, Epoch)>>,
    /// Replicas that this process reports.
    pub(super) replicas: StateCell<ReplicaInventory>,
    /// Answer of the daemon to this process, and the generation of the request.
    pub(super) placement_hint: StateCell<Option<(Generation, PlacementHint)>>,
    /// Deaths that may be the program's fault.
    pub(super) history: StateCell<DeathHistory>,
}

impl RecoveryState {
    /// State at the start of the process.
    pub const fn start() -> RecoveryState {
        RecoveryState {
            resumed_in_init: Cell::new(false),
            is_under_way: Cell::new(false),
            first_communicator: StateCell::new(None),
            on_silent_nodes: StateCell::new(Vec::new()),
            departure: Cell::new(None),
            replicas: StateCell::new(ReplicaInventory::EMPTY),
            placement_hint: StateCell::new(None),
            history: StateCell::new(DeathHistory::START),
        }
    }
}
