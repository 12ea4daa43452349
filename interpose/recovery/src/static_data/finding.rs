//! Results of trial replays.

use crate::copies::ReplayPlan;
use crate::journal::Inputs;
use std::time::Duration;

/// Result of the replay in one child process.
#[derive(Default, bincode::Encode, bincode::Decode)]
pub struct ReplayFinding {
    /// Reason why the replay did not reach its end.
    pub failure: Option<String>,
    /// Numbers of the pages that differ, sorted.
    pub different: Vec<u64>,
    /// Names of the mappings around these pages, with the number of pages in each mapping.
    pub places: Vec<String>,
    /// Duration of the replay.
    pub duration: Duration,
    /// Record of the inputs that the replay has read.
    pub inputs: Inputs,
}

impl ReplayFinding {
    /// Combines this finding with that of a later replay of this phase.
    ///
    /// A page differs if it differs in any of the replays. If one replay has failed, the combined
    /// finding is a failure.
    pub fn combined_with(mut self, other: ReplayFinding) -> ReplayFinding {
        if self.failure.is_some() || other.failure.is_some() {
            let failure = self.failure.or(other.failure);
            return ReplayFinding { failure, ..other };
        }
        self.different.extend(other.different);
        self.different.sort_unstable();
        self.different.dedup();
        let ReplayFinding {
            places,
            duration,
            inputs,
            ..
        } = other;
        let fewer = places.len() < self.places.len();
        let places = if fewer { self.places } else { places };
        ReplayFinding {
            places,
            duration,
            inputs,
            ..self
        }
    }

    /// Returns the finding of a replay that did not reach its end.
    pub fn failed(why: String) -> ReplayFinding {
        ReplayFinding {
            failure: Some(why),
            ..ReplayFinding::default()
        }
    }
}

/// Result of the trial replays of a phase, with sizes of the phase.
#[derive(bincode::Encode, bincode::Decode)]
pub struct TrialResult {
    /// Combined finding of the child processes.
    pub finding: ReplayFinding,
    /// Bytes of the journal.
    pub journal: u64,
    /// Number of pages that were compared.
    pub pages: u64,
    /// Duration of the recorded phase.
    pub duration: Duration,
}

impl TrialResult {
    /// Returns the result for a replay plan.
    pub fn new(plan: &ReplayPlan, finding: ReplayFinding) -> TrialResult {
        TrialResult {
            finding,
            journal: plan.journal_bytes(),
            pages: plan.page_count(),
            duration: plan.duration(),
        }
    }

    /// Returns the result if there was no trial replay.
    pub fn none(failure: String) -> TrialResult {
        TrialResult {
            finding: ReplayFinding::failed(failure),
            journal: 0,
            pages: 0,
            duration: Duration::ZERO,
        }
    }
}

/// Proof for a worker: pages that are not rebuilt, and the recorded inputs.
///
/// `None` if the trial replay has failed.
pub type StaticDataProof = Option<(Vec<u64>, Inputs)>;
