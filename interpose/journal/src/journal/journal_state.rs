//! State of recording and replaying.

use super::hold::Hold;
use super::play::Play;
use super::recording::Recording;
use crate::cell::Field;

/// The phase that is recorded, and the replay under way.
pub struct JournalState {
    /// The phase that is recorded, or was.
    pub(super) recording: Field<Recording>,
    /// State of the system call filter of a replay.
    pub(super) hold: Field<Option<Hold>>,
    /// The replay under way.
    pub(super) play: Field<Option<Play>>,
}

impl JournalState {
    /// State at the start of the process.
    pub const fn start() -> JournalState {
        JournalState {
            recording: Field::new(Recording::Off),
            hold: Field::new(None),
            play: Field::new(None),
        }
    }
}
