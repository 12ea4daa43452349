//! Replica state of this process.

use super::persistent_store::ForeignStore;
use super::replicas::Replicas;
use crate::runtime_state::StateCell;

/// Replicas of this process, and replicas of a dead process.
pub struct ReplicaState {
    /// All replicas; `None` before the first.
    pub(super) keep: StateCell<Option<Replicas>>,
    /// The persistent replica store of a dead process, until it is adopted.
    pub(super) found: StateCell<Option<ForeignStore>>,
}

impl ReplicaState {
    /// State at the start of the process.
    pub const fn start() -> ReplicaState {
        ReplicaState {
            keep: StateCell::new(None),
            found: StateCell::new(None),
        }
    }
}
