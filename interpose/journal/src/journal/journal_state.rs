//! State of recording and replaying.

use super::hold::Hold;
use super::play::Play;
use super::recording::Recording;
use crate::runtime_state::StateCell;

/// The phase that is recorded, and the replay under way.
pub struct JournalState {
    /// The phase that is recorded, or was.
    pub(super) recording: StateCell<Recording>,
    /// State of the system call filter of a replay.
    pub(super) hold: StateCell<Option<Hold>>,
    /// The replay under way.
    pub(super) play: StateCell<Option<Play>>,
}

impl JournalState {
    /// State at the start of the process.
    pub const fn start() -> JournalState {
        JournalState {
            recording: StateCell::new(Recording::Off),
            hold: StateCell::new(None),
            play: StateCell::new(None),
        }
    }
}
