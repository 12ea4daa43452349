//! Replicas that this process reports to a recovery: stored ones, and damaged ones.

use understudy_policy::recovery_plan::{DamagedReplica, KeptReplicas};

/// Replicas that this process reports to a recovery.
pub(super) struct ReportedReplicas {
    /// Replicas of this joining process, from a failed attempt or from a dead process.
    pub(super) available: Option<KeptReplicas>,
    /// Damaged replicas.
    pub(super) refused: Vec<DamagedReplica>,
}

impl ReportedReplicas {
    /// The state at the start of the process.
    pub(super) const START: ReportedReplicas = ReportedReplicas {
        available: None,
        refused: Vec::new(),
    };
}
