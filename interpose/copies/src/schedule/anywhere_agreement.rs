//! State of the agreement on a cut at any call.

use crate::max_allreduce::MaxAllreduce;
use std::time::Instant;
use understudy_policy::agreement::AgreementVotes;

/// Agreement on a cut at any call.
pub struct AnywhereAgreement {
    pub votes: AgreementVotes,
    /// Vote under way.
    pub vote: Option<MaxAllreduce>,
    /// Time until which the entry of a collective waits for this vote.
    pub waits_until: Option<Instant>,
    /// Number of later entries of collectives that may each wait equally long for this vote.
    pub further_waits: u32,
    /// Time of this worker's second vote; the worker may have been stopped since.
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
