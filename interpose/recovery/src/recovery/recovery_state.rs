//! State of recoveries.

use super::death_history::History;
use super::found_replicas::FoundReplicas;
use super::placement_hint::PlacementHint;
use crate::cell::Field;
use std::cell::Cell;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Generation, Worker};

/// Past recoveries, and the one under way.
pub struct RecoveryState {
    /// True if the program resumes from the end of MPI_Init.
    pub(super) resumed_in_init: Cell<bool>,
    /// True while a recovery runs.
    pub(super) is_under_way: Cell<bool>,
    /// Communicator of a joining process's first generation, until its first recovery takes it.
    pub(super) first: Field<Option<RealComm>>,
    /// Workers that were replaced, and whose node has no survivors.
    pub(super) alone: Field<Vec<Worker>>,
    /// Replicas that this process reports.
    pub(super) heritage: Field<FoundReplicas>,
    /// Answer of the daemon to this process, and the generation of the request.
    pub(super) asked: Field<Option<(Generation, PlacementHint)>>,
    /// Deaths that may be the program's fault.
    pub(super) history: Field<History>,
}

impl RecoveryState {
    /// State at the start of the process.
    pub const fn start() -> RecoveryState {
        RecoveryState {
            resumed_in_init: Cell::new(false),
            is_under_way: Cell::new(false),
            first: Field::new(None),
            alone: Field::new(Vec::new()),
            heritage: Field::new(FoundReplicas::START),
            asked: Field::new(None),
            history: Field::new(History::START),
        }
    }
}
