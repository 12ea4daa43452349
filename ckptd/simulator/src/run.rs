//! The result of a run.

/// What one run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    pub failures: u64,
    /// Tasks that were completed beyond those of an undisturbed run.
    pub recomputed: f64,
    /// Seconds.
    pub time: f64,
}
