//! The phase that is recorded.

use super::end::Watch;
use super::recorder::Recorder;
use crate::arch::Frame;
use std::time::Duration;
use understudy_numbers::Epoch;

/// A phase that is recorded.
pub struct Phase {
    pub recorder: Recorder,
    /// The call that it began with: that of `MPI_Init`, or a cut.
    pub begin: Frame,
    /// The epoch of that cut.
    pub base: Option<Epoch>,
    /// Slot of the cut, the last call of a replay, and hash of its arguments.
    pub end: Option<(u64, u32)>,
    /// Duration of the phase.
    pub took: Duration,
    pub(super) watch: Watch,
    pub records: bool,
    /// Most bytes of the journal when `limit` was called last.
    pub(super) room: usize,
    /// Returns the most bytes of the journal at present.
    pub(super) limit: fn() -> usize,
    /// All workers agree that the next cut is its end.
    pub(super) is_agreed: bool,
    /// The epoch at its end.
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
    /// The phase that is under way.
    pub(super) fn on(&self) -> Option<&Phase> {
        match self {
            Recording::On(phase) => Some(phase),
            Recording::Off | Recording::Ended(_) => None,
        }
    }

    /// Returns the phase under way to change it.
    pub(super) fn on_mut(&mut self) -> Option<&mut Phase> {
        match self {
            Recording::On(phase) => Some(phase),
            Recording::Off | Recording::Ended(_) => None,
        }
    }
}
