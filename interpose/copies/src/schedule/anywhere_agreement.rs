//! State of the agreement on a cut at any call.

use crate::max_allreduce::MaxAllreduce;
use std::time::{Duration, Instant};
use understudy_policy::agreement::Agreement;
use understudy_policy::pace::Terms;

/// Vote of an agreement on a cut at any call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnywhereVote {
    Gather,
    /// Vote in which all have stood still.
    Stand,
    Confirm,
}

impl AnywhereVote {
    /// Returns the vote that follows.
    pub fn next(self) -> AnywhereVote {
        match self {
            AnywhereVote::Gather => AnywhereVote::Stand,
            AnywhereVote::Stand | AnywhereVote::Confirm => AnywhereVote::Confirm,
        }
    }
}

/// Agreement on a cut at any call.
pub struct AnywhereAgreement {
    pub agreement: Agreement,
    /// Vote under way.
    pub vote: Option<MaxAllreduce>,
    /// Kind of the vote under way.
    pub vote_kind: AnywhereVote,
    /// Terms of the pace, from the first vote.
    pub terms: Terms,
    /// Number of attempts in immediate succession.
    pub attempts: u32,
    /// End of the wait of a collective's entry in this vote.
    pub waits_until: Option<Instant>,
    /// Number of further entries that may wait for that long.
    pub further_waits: u32,
    /// Time from which this worker may have stood still in this attempt.
    pub stood_since: Option<Instant>,
    /// Longest time for which this worker stands still.
    pub max_stop_time: Duration,
    /// True if this worker has resumed after a long wait.
    pub has_resumed: bool,
}

impl AnywhereAgreement {
    /// No agreement.
    pub const NONE: AnywhereAgreement = AnywhereAgreement {
        agreement: Agreement::NONE,
        vote: None,
        vote_kind: AnywhereVote::Gather,
        terms: [0; 2],
        attempts: 0,
        waits_until: None,
        further_waits: 0,
        stood_since: None,
        max_stop_time: Duration::from_secs(1),
        has_resumed: false,
    };
}
