//! Replicas that this process reports to a recovery: stored ones, and damaged ones.

use understudy_policy::recovery_plan::{Held, Refused};

/// Replicas that this process reports to a recovery.
pub(super) struct FoundReplicas {
    /// Replicas of this joining process, from a failed attempt or from a dead process.
    pub(super) held: Option<Held>,
    /// Damaged replicas.
    pub(super) refused: Vec<Refused>,
}

impl FoundReplicas {
    /// The state at the start of the process.
    pub(super) const START: FoundReplicas = FoundReplicas {
        held: None,
        refused: Vec::new(),
    };
}
