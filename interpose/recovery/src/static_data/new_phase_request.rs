//! State of a request for a new set-up phase.

/// Request for a new set-up phase.
pub(super) struct NewPhaseRequest {
    /// True if the program has requested a new phase.
    pub(super) is_requested: bool,
    /// True if all workers have allowed a new phase at the cut under way.
    pub(super) is_agreed: bool,
}

impl NewPhaseRequest {
    /// No request.
    pub(super) const NONE: NewPhaseRequest = NewPhaseRequest {
        is_requested: false,
        is_agreed: false,
    };
}
