//! Drained messages, and messages that the program has matched but not yet received.
//!
//! A drained message is received at a cut (`drain` of the runtime) before the program asks for it.
//! Drained messages are kept with the image and delivered to later receives. [`matched`] contains
//! messages that the program has matched but not yet received.

mod delivery;
mod drained_message;
mod drained_state;
mod drained_table;
mod matched;

pub use delivery::{deliver, owe, peek, take};
pub use drained_message::{Early, Matched, first};
pub(crate) use drained_state::DrainedState;
pub use drained_table::{add, drop_on, has_any, is_used, list, replace};
pub use matched::{
    Found, claim, enter as enter_matched, exists as matched_exists, forget as forget_matched,
    is_received, matched, places, take as take_matched,
};
