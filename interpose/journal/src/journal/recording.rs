//! Phase that is recorded.

use super::end::Watch;
use super::recorder::Recorder;
use crate::arch::Frame;
use std::time::Duration;
use understudy_numbers::Epoch;

/// Phase that is recorded.
pub struct Phase {
    pub recorder: Recorder,
    /// Call at which the phase began: that of `MPI_Init`, or a cut.
    pub begin: Frame,
    /// Epoch of the cut at which the phase began.
    pub base: Option<Epoch>,
    /// Slot and hash of the arguments of the last call of a replay, the cut.
    pub end: Option<(u64, u32)>,
    /// Duration of the phase.
    pub took: Duration,
    pub(super) watch: Watch,
    pub records: bool,
    /// Limit of the journal in bytes when `limit` was called last.
    pub(super) room: usize,
    /// Returns the present limit of the journal in bytes.
    pub(super) limit: fn() -> usize,
    /// True if all workers agree that the phase ends at the next cut.
    pub(super) is_agreed: bool,
    /// Epoch at the end of the phase.
    pub(super) epoch: Epoch,
}

/// Stage of the recording of a phase.
pub(super) enum Recording {
    /// Nothing is recorded.
    Off,
    /// A phase is under way.
    On(Box<Phase>),
    /// The last cut of the phase was taken, and the phase was not taken yet.
    Ended(Box<Phase>),
}

impl Recording {
    /// Returns the phase that is under way.
    pub(super) fn on(&self) -> Option<&Phase> {
        match self {
            Recording::On(phase) => Some(phase),
            Recording::Off | Recording::Ended(_) => None,
        }
    }

    /// Returns the phase that is under way, to change it.
    pub(super) fn on_mut(&mut self) -> Option<&mut Phase> {
        match self {
            Recording::On(phase) => Some(phase),
            Recording::Off | Recording::Ended(_) => None,
        }
    }
}
