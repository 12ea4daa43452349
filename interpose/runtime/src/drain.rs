//! Messages in flight at a cut.
//!
//! At a cut every rank gets the number of messages that every other rank has sent to it (bookmark
//! exchange, as in LAM/MPI's and MANA's checkpoints). Messages that were sent but not received are
//! received at the cut: into the buffers of posted receives, or, if none matches, as drained
//! messages ([`crate::drained`]).

mod bookmarks;
mod in_flight;
mod synchronous_queries;

pub use bookmarks::exchange;
pub use in_flight::drain;
