//! Drained messages, and messages that the program has matched but not yet received.
//!
//! A cut receives all messages in flight (`drain` of the runtime). Those that the program has not
//! requested yet are *drained messages*. They are saved in the checkpoint and delivered to later
//! receives. `matched` contains the messages that `MPI_Mprobe` has returned to the program and that
//! the program has not received yet.

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
