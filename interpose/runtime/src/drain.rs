//! Messages in flight at a cut.
//!
//! At a cut every rank knows how many messages it has sent to and received from every other
//! (bookmark exchange, as in LAM/MPI's and MANA's checkpoints). Messages that were sent but not
//! received are taken now: into the buffers of receives that are posted, or, where none matches,
//! into early messages ([`crate::early`]).

mod bookmarks;
mod in_flight;
mod shared_mappings;
mod synchronous_questions;

pub use bookmarks::{Ability, Exchange, Sent, exchange};
pub use in_flight::drain;
