//! Stages of a checkpoint from its capture to its commit, in one worker.
//!
//! ```text
//!   Preparing ─► Receiving ─► Combining ─► Shipping ─► Voting ─► commit
//!     checksums    replicas     parity      all sent    all workers have complete replicas
//! ```
//!
//! A worker votes for the commit once its replicas are complete: its own replica, and those that it
//! stores for others. Before the vote, the worker records its replicas in the persistent replica
//! store, if the process has one. So when any worker sees the end of the vote, complete replicas of
//! every worker exist, and the checkpoint can be restored whichever process fails. Until then, the
//! previous checkpoint stays intact.

/// Condition for which a worker waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PendingStage {
    /// The checksums of the captured pages, and with parity the changes.
    Preparing,
    /// Replicas from other workers.
    Receiving,
    /// Computation of the new parity from received changes; ends at once without parity.
    Combining,
    /// The completion of this worker's own sends.
    Shipping,
    /// The votes of the other workers.
    Voting,
    /// Nothing: the checkpoint is committed.
    Committed,
}

/// Work after the end of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingAction {
    /// Send the checksums, or with parity the changes.
    SendChecksums,
    /// Start to combine the received data with the stored ones.
    Combine,
    /// Record the complete replicas, then start the vote on the commit.
    RecordAndVote,
    /// Report the sent and received bytes.
    Report,
    /// Replace the previous checkpoint by this one.
    Commit,
}

/// Each stage, the work after its end, and the stage that follows.
const STAGES: [(PendingStage, PendingAction, PendingStage); 5] = [
    (
        PendingStage::Preparing,
        PendingAction::SendChecksums,
        PendingStage::Receiving,
    ),
    (
        PendingStage::Receiving,
        PendingAction::Combine,
        PendingStage::Combining,
    ),
    (
        PendingStage::Combining,
        PendingAction::RecordAndVote,
        PendingStage::Shipping,
    ),
    (
        PendingStage::Shipping,
        PendingAction::Report,
        PendingStage::Voting,
    ),
    (
        PendingStage::Voting,
        PendingAction::Commit,
        PendingStage::Committed,
    ),
];

impl PendingStage {
    /// Ends the stage; returns the work that follows, if any.
    pub fn step(&mut self) -> Option<PendingAction> {
        let (_, action, next) = STAGES.iter().find(|(stage, ..)| stage == self)?;
        *self = *next;
        Some(*action)
    }

    /// True if this worker has voted for the commit, so its replicas are complete.
    ///
    /// After a failure, such a worker can roll back to this checkpoint or to the previous one.
    pub fn is_complete(self) -> bool {
        self >= PendingStage::Shipping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_passes_all_stages_before_its_commit() {
        let steps = [
            (PendingStage::Preparing, PendingAction::SendChecksums),
            (PendingStage::Receiving, PendingAction::Combine),
            (PendingStage::Combining, PendingAction::RecordAndVote),
            (PendingStage::Shipping, PendingAction::Report),
            (PendingStage::Voting, PendingAction::Commit),
        ];
        let mut stage = PendingStage::Preparing;
        for (expected, action) in steps {
            assert_eq!(stage, expected);
            assert_eq!(stage.step(), Some(action));
        }
        assert_eq!((stage, stage.step()), (PendingStage::Committed, None));
    }
}
