//! Replica state of this process.

use super::legacy::Estate;
use super::replicas::Replicas;
use crate::cell::Field;

/// Replicas of this process, and those of a dead one.
pub struct ReplicaState {
    /// All replicas; `None` before the first.
    pub(super) keep: Field<Option<Replicas>>,
    /// The persistent replica store of a dead process, until it is adopted.
    pub(super) found: Field<Option<Estate>>,
}

impl ReplicaState {
    /// State at the start of the process.
    pub const fn start() -> ReplicaState {
        ReplicaState {
            keep: Field::new(None),
            found: Field::new(None),
        }
    }
}
