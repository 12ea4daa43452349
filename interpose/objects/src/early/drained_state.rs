//! Drained and matched messages of this process. Plain data.

use super::drained_message::{Early, Matched};
use crate::cell::Field;
use crate::own_messages::Told;

/// Messages that the program has not received yet.
pub struct DrainedState {
    /// Messages that were received before the program asked.
    pub(super) messages: Field<Vec<Early>>,
    /// By index of the virtual message.
    pub(super) matched: Field<Vec<Option<Matched>>>,
    /// Messages to senders that are under way.
    pub(super) told: Field<Told>,
}

impl DrainedState {
    /// State at the start of the process.
    pub const fn start() -> DrainedState {
        DrainedState {
            messages: Field::new(Vec::new()),
            matched: Field::new(Vec::new()),
            told: Field::new(Told::NONE),
        }
    }
}
