//! Drained messages, and messages that the program has matched but not yet received.
//!
//! A drained message is received at a cut (`drain` of the runtime) before the program asks for it.
//! Drained messages are kept with the image and delivered to later receives. `matched` contains
//! messages that the program has matched but not yet received.

mod delivery;
mod drained_message;
mod drained_state;
mod drained_table;
mod matched;

pub use delivery::{deliver, notify_on_receive, peek, take};
pub use drained_message::{DrainedMessage, MatchedMessage, first_matching};
pub(crate) use drained_state::DrainedState;
pub use drained_table::{add, drop_on, has_any, is_comm_in_use, list, replace};
pub use matched::{
    MatchedLocation, claim, discard_matched, enter as enter_matched, exists as matched_exists,
    matched, matched_index_end, record_received, take as take_matched,
};
