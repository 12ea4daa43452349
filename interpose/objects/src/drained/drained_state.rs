//! Drained and matched messages of this process. Plain data.

use super::drained_message::{DrainedMessage, MatchedMessage};
use crate::control_messages::SendQueue;
use crate::runtime_state::StateCell;

/// Messages that the program has not received yet.
pub struct DrainedState {
    /// Drained messages.
    pub(super) messages: StateCell<Vec<DrainedMessage>>,
    /// Matched messages in the real library, by index of the program's message handle.
    pub(super) matched: StateCell<Vec<Option<MatchedMessage>>>,
    /// Notifications in flight to the senders of synchronous sends.
    pub(super) notifications: StateCell<SendQueue>,
}

impl DrainedState {
    /// Returns the state at the start of the process.
    pub const fn start() -> DrainedState {
        DrainedState {
            messages: StateCell::new(Vec::new()),
            matched: StateCell::new(Vec::new()),
            notifications: StateCell::new(SendQueue::NONE),
        }
    }
}
