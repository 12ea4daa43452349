//! Set-up phase of which the calls are recorded, and the stages of the recording.

use super::phase_end::PhaseEndDetector;
use super::recorder::Recorder;
use crate::arch::Frame;
use std::time::Duration;
use understudy_numbers::Epoch;

/// Set-up phase that is being recorded, or has been recorded.
pub struct RecordedPhase {
    pub recorder: Recorder,
    /// Call at which the phase began: that of `MPI_Init`, or a cut.
    pub begin: Frame,
    /// Epoch of the cut at which the phase began; `None` if it began with `MPI_Init`.
    pub base: Option<Epoch>,
    /// Call at which a replay ends, the last cut: slot, and hash of the arguments.
    pub end: Option<(u64, u32)>,
    /// Duration of the phase.
    pub duration: Duration,
    pub(super) end_detector: PhaseEndDetector,
    /// True if calls are recorded; false if only the end of the phase is detected.
    pub records: bool,
    /// Limit of the journal in bytes when `limit` was called last.
    pub(super) limit_bytes: usize,
    /// Returns the present limit of the journal in bytes.
    pub(super) limit: fn() -> usize,
    /// True if all workers agree that the phase ends at the cut under way.
    pub(super) is_agreed: bool,
    /// Epoch at the end of the phase.
    pub(super) epoch: Epoch,
}

/// Stage of the recording of a phase.
pub(super) enum RecordingStage {
    /// Nothing is recorded.
    Off,
    /// A phase is under way.
    On(Box<RecordedPhase>),
    /// The last cut of the phase was taken; [`take_ended`](super::take_ended) returns the phase.
    Ended(Box<RecordedPhase>),
}

impl RecordingStage {
    /// Returns the phase that is under way.
    pub(super) fn on(&self) -> Option<&RecordedPhase> {
        match self {
            RecordingStage::On(phase) => Some(phase),
            RecordingStage::Off | RecordingStage::Ended(_) => None,
        }
    }

    /// Returns the phase that is under way, to change it.
    pub(super) fn on_mut(&mut self) -> Option<&mut RecordedPhase> {
        match self {
            RecordingStage::On(phase) => Some(phase),
            RecordingStage::Off | RecordingStage::Ended(_) => None,
        }
    }
}
