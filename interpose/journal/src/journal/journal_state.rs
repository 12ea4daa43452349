//! State of recording and replaying.

use super::recording::RecordingStage;
use super::replay_progress::ReplayProgress;
use super::syscall_filter::FilterState;
use crate::runtime_state::StateCell;

/// State of a recording in a rank, and of a replay in a child process.
pub struct JournalState {
    /// Recording of a phase.
    pub(super) recording: StateCell<RecordingStage>,
    /// State of the system call filter of a replay.
    pub(super) filter: StateCell<Option<FilterState>>,
    /// Replay that is in progress.
    pub(super) replay: StateCell<Option<ReplayProgress>>,
}

impl JournalState {
    /// State at the start of the process.
    pub const fn start() -> JournalState {
        JournalState {
            recording: StateCell::new(RecordingStage::Off),
            filter: StateCell::new(None),
            replay: StateCell::new(None),
        }
    }
}
