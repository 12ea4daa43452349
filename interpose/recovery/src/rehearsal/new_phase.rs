//! State of the program's wish for a new phase.

/// Wish for a new phase.
pub(super) struct NewPhase {
    /// True if the program has requested one.
    pub(super) is_asked: bool,
    /// True if all workers have, and the phase begins with the next cut.
    pub(super) is_agreed: bool,
}

impl NewPhase {
    /// No wish.
    pub(super) const NOTHING: NewPhase = NewPhase {
        is_asked: false,
        is_agreed: false,
    };
}
