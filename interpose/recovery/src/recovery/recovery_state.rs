//! The link of the runtime's chain that has the state of recoveries.

use super::death_history::History;
use super::found_replicas::FoundReplicas;
use super::placement_hint::PlacementHint;
use crate::cell::{Door, Field, runtime};
use crate::rehearsal;
use std::cell::Cell;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{Generation, Worker};

runtime! {
    pub struct Runtime: rehearsal::Runtime {
        /// True if the program goes on from the end of MPI_Init.
        pub(super) resumed_in_init: Cell<bool> = Cell::new(false),
        /// True while a recovery runs.
        pub(super) is_under_way: Cell<bool> = Cell::new(false),
        /// Communicator of a newcomer's first generation, until its first recovery takes it.
        pub(super) first: Field<Option<RealComm>> = Field::new(None),
        /// Workers that were replaced, and on whose node no process was left.
        pub(super) alone: Field<Vec<Worker>> = Field::new(Vec::new()),
        /// Replicas that this process reports.
        pub(super) heritage: Field<FoundReplicas> = Field::new(FoundReplicas::START),
        /// Answer of the daemon to this process, and the generation that it is for.
        pub(super) asked: Field<Option<(Generation, PlacementHint)>> = Field::new(None),
        /// Deaths that may be the program's doing.
        pub(super) history: Field<History> = Field::new(History::START),
    }
}

/// Door for calls of lower modules, and of the program.
pub static DOOR: Door<Runtime> = Door::new();

/// Returns true, once, if MPI_Init is entered because the program was set back to its end.
pub fn resumed_in_init(rt: &Runtime) -> bool {
    rt.resumed_in_init.take()
}
