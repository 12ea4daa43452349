//! State of a request for a new set-up phase.

/// Request for a new set-up phase.
pub(super) struct NewPhase {
    /// True if the program has requested a new phase.
    pub(super) is_asked: bool,
    /// True if all workers have requested one, so that it begins with the next cut.
    pub(super) is_agreed: bool,
}

impl NewPhase {
    /// No request.
    pub(super) const NOTHING: NewPhase = NewPhase {
        is_asked: false,
        is_agreed: false,
    };
}
