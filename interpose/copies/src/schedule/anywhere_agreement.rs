//! State of the agreement on a cut at any call.

use crate::rounds::Rounds;
use std::time::{Duration, Instant};
use understudy_policy::agreement::Agreement;
use understudy_policy::pace::Terms;

/// Vote of an agreement on a cut at any call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    Gather,
    /// Vote in which all have stood still.
    Stand,
    Confirm,
}

impl Vote {
    /// Returns the vote that follows.
    pub fn next(self) -> Vote {
        match self {
            Vote::Gather => Vote::Stand,
            Vote::Stand | Vote::Confirm => Vote::Confirm,
        }
    }
}

/// Agreement on a cut at any call.
pub struct Anywhere {
    pub agreement: Agreement,
    /// Vote under way.
    pub vote: Option<Rounds>,
    /// Kind of the vote under way.
    pub which: Vote,
    /// Terms of the pace, from the first vote.
    pub terms: Terms,
    /// Number of attempts in immediate succession.
    pub tries: u32,
    /// End of the wait of a collective's entry in this vote.
    pub waits_until: Option<Instant>,
    /// Number of further entries that may wait for that long.
    pub holds: u32,
    /// Time from which this worker may have stood still in this attempt.
    pub stood_since: Option<Instant>,
    /// Longest time for which this worker stands still.
    pub stands: Duration,
    /// True if this worker has resumed after a long wait.
    pub has_given_up: bool,
}

impl Anywhere {
    /// No agreement.
    pub const NONE: Anywhere = Anywhere {
        agreement: Agreement::NONE,
        vote: None,
        which: Vote::Gather,
        terms: [0; 2],
        tries: 0,
        waits_until: None,
        holds: 0,
        stood_since: None,
        stands: Duration::from_secs(1),
        has_given_up: false,
    };
}
