//! What comes of a rehearsal.

use crate::copies::Script;
use crate::journal::Inputs;
use std::time::Duration;

/// What a child has found out.
#[derive(Default, bincode::Encode, bincode::Decode)]
pub struct Finding {
    /// Why the replay did not come to its end.
    pub failure: Option<String>,
    /// Numbers of the pages that are not equal, sorted.
    pub different: Vec<u64>,
    /// The mappings they are in, with how many there are in each.
    pub places: Vec<String>,
    /// How long the replay took.
    pub took: Duration,
    /// What it has read of files.
    pub inputs: Inputs,
}

impl Finding {
    /// What this one and another of the same phase have found.
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

    /// No replay came to its end.
    pub fn failed(why: String) -> Finding {
        Finding {
            failure: Some(why),
            ..Finding::default()
        }
    }
}

/// What came of a rehearsal, and of what.
#[derive(bincode::Encode, bincode::Decode)]
pub struct Rehearsed {
    /// What the children have found out.
    pub finding: Finding,
    /// Bytes of the journal.
    pub journal: u64,
    /// How many pages there were to compare.
    pub pages: u64,
    /// How long the phase took.
    pub took: Duration,
}

impl Rehearsed {
    /// That of this script.
    pub fn of(script: &Script, finding: Finding) -> Rehearsed {
        Rehearsed {
            finding,
            journal: script.journal(),
            pages: script.page_count(),
            took: script.took(),
        }
    }

    /// There was none.
    pub fn none(failure: String) -> Rehearsed {
        Rehearsed {
            finding: Finding::failed(failure),
            journal: 0,
            pages: 0,
            took: Duration::ZERO,
        }
    }
}

/// What a worker is told: the numbers of pages that are not rebuilt, and what was read of files; or
/// that none are.
pub type Proof = Option<(Vec<u64>, Inputs)>;
