//! State of the agreement on a cut at any call.

use crate::max_allreduce::MaxAllreduce;
use std::time::Instant;
use understudy_policy::agreement::AgreementVotes;

/// Agreement on a cut at any call.
pub struct AnywhereAgreement {
    pub votes: AgreementVotes,
    /// Vote under way.
    pub vote: Option<MaxAllreduce>,
    /// End of the wait of a collective's entry in this vote.
    pub waits_until: Option<Instant>,
    /// Number of further entries that may wait for that long.
    pub further_waits: u32,
    /// Time from which this worker may have stood still in this attempt.
    pub stood_since: Option<Instant>,
}

impl AnywhereAgreement {
    /// No agreement.
    pub const NONE: AnywhereAgreement = AnywhereAgreement {
        votes: AgreementVotes::NONE,
        vote: None,
        waits_until: None,
        further_waits: 0,
        stood_since: None,
    };
}
