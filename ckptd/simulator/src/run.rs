//! The result of a run.

/// The result of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    pub failures: u64,
    /// Number of completed tasks beyond those of a run without failures.
    pub recomputed: f64,
    /// Duration in seconds.
    pub time: f64,
}
