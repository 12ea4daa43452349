//! Early messages: received at a cut (`drain` of the runtime) before the program asked for them,
//! kept with the image, and delivered to later receives. And messages that the program has matched
//! but not yet received ([`matched`]).

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
