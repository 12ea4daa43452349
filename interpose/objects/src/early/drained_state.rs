//! Drained and matched messages of this process. Plain data.

use super::drained_message::{Early, Matched};
use crate::cell::Field;
use crate::own_messages::Told;

/// Messages that the program has not received yet.
pub struct DrainedState {
    /// Drained messages, which were received before the program asked for them.
    pub(super) messages: Field<Vec<Early>>,
    /// Matched messages in the real library, by index of the virtual message.
    pub(super) matched: Field<Vec<Option<Matched>>>,
    /// Reports to senders of synchronous sends, in flight.
    pub(super) told: Field<Told>,
}

impl DrainedState {
    /// Returns the state at the start of the process.
    pub const fn start() -> DrainedState {
        DrainedState {
            messages: Field::new(Vec::new()),
            matched: Field::new(Vec::new()),
            told: Field::new(Told::NONE),
        }
    }
}
