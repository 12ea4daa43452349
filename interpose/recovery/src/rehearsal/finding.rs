//! Results of trial replays.

use crate::copies::Script;
use crate::journal::Inputs;
use std::time::Duration;

/// Finding of a child process.
#[derive(Default, bincode::Encode, bincode::Decode)]
pub struct Finding {
    /// Reason why the replay did not reach its end.
    pub failure: Option<String>,
    /// Numbers of the pages that differ, sorted.
    pub different: Vec<u64>,
    /// Names of the mappings around these pages, with the number of pages in each.
    pub places: Vec<String>,
    /// Duration of the replay.
    pub took: Duration,
    /// Record of the inputs that the replay has read.
    pub inputs: Inputs,
}

impl Finding {
    /// Combines this finding with a later one of this phase.
    pub fn and(mut self, other: Finding) -> Finding {
        if self.failure.is_some() || other.failure.is_some() {
            let failure = self.failure.or(other.failure);
            return Finding { failure, ..other };
        }
        self.different.extend(other.different);
        self.different.sort_unstable();
        self.different.dedup();
        let Finding {
            places,
            took,
            inputs,
            ..
        } = other;
        let fewer = places.len() < self.places.len();
        let places = if fewer { self.places } else { places };
        Finding {
            places,
            took,
            inputs,
            ..self
        }
    }

    /// Returns the finding of a replay that did not reach its end.
    pub fn failed(why: String) -> Finding {
        Finding {
            failure: Some(why),
            ..Finding::default()
        }
    }
}

/// Result of a trial replay, with sizes of the phase.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Rehearsed {
    /// Combined finding of the child processes.
    pub finding: Finding,
    /// Bytes of the journal.
    pub journal: u64,
    /// Number of pages that were compared.
    pub pages: u64,
    /// Duration of the phase.
    pub took: Duration,
}

impl Rehearsed {
    /// Returns the result for a replay plan.
    pub fn of(script: &Script, finding: Finding) -> Rehearsed {
        Rehearsed {
            finding,
            journal: script.journal(),
            pages: script.page_count(),
            took: script.took(),
        }
    }

    /// Returns the result if there was no trial replay.
    pub fn none(failure: String) -> Rehearsed {
        Rehearsed {
            finding: Finding::failed(failure),
            journal: 0,
            pages: 0,
            took: Duration::ZERO,
        }
    }
}

/// Proof for a worker: numbers of the pages that are not rebuilt, and the inputs.
///
/// `None` if no page is rebuilt.
pub type Proof = Option<(Vec<u64>, Inputs)>;
