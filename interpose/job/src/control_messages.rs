//! Control messages: bytes that the runtimes of workers exchange.
//!
//! The buffers are memory of the runtime side, not of the program.

mod send_queue;
mod sparse_exchange;
mod swap;

pub use send_queue::SendQueue;
pub use sparse_exchange::sparse_exchange;
pub use swap::swap;
pub use understudy_mpi::in_flight::{InFlight, InFlightSet, Peer};

use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Returns the next message with a tag that has arrived, and its sender.
///
/// `comm` must be a communicator of all workers.
///
/// # Errors
/// Fails if a procedure of the MPI library fails.
pub fn next(comm: RealComm, tag: c_int) -> mpi::Result<Option<(Worker, Vec<u8>)>> {
    let Some((from, message)) = InFlight::receive_arrived(comm, None, tag)? else {
        return Ok(None);
    };
    Ok(Some((from, message.wait()?)))
}

/// Tags of the messages on [`crate::world::private`].
pub mod tag {
    use std::ffi::c_int;

    /// Beginning of a replica: see `copies::Transfer`.
    pub const HEAD: c_int = 1;
    /// Description of a replica's pages.
    pub const HEADER: c_int = 2;
    /// State of a worker apart from its pages.
    pub const STATE: c_int = 3;
    /// Pages of a replica.
    pub const PAGES: c_int = 4;
    pub const SUMS: c_int = 5;
    /// Votes on whether a cut is due.
    pub const VOTE: c_int = 6;
    /// Report that a worker can commit.
    pub const COMMIT: c_int = 7;
    /// Replay plan for a trial replay by the buddy.
    pub const REPLAY_PLAN: c_int = 8;
    /// Result of a trial replay.
    pub const PROOF: c_int = 10;
    /// Plan that rebuilds static data, for the buddy.
    pub const STATIC: c_int = 11;
    /// Plan that rebuilds static data, for a process that receives a replica.
    pub const OFFER: c_int = 12;
    /// Pages of a replica that its buddy has itself (deduplication).
    pub const ANSWER: c_int = 9;
    /// First vote on a cut at any call.
    pub const CUT_GATHER: c_int = 13;
    /// Second vote on a cut at any call: all workers are quiesced.
    pub const CUT_QUIESCED: c_int = 14;
    /// Notification that a worker continues, which cancels a cut at any call.
    pub const CUT_VETO: c_int = 15;
    /// Messages by which processes agree on when to enter a constructor or an intercommunicator's
    /// collective.
    pub const ASSEMBLE: c_int = 16;
    /// Report that the program has received a drained message.
    pub const DRAINED_RECEIVED: c_int = 17;
    /// Queries about synchronous sends whose messages a cut may have drained, and the answers.
    pub const DRAINED_QUERY: c_int = 18;
    /// Message counts of a cut.
    pub const COUNTS: c_int = 20;
    /// Third vote on a cut at any call: all workers are still quiesced.
    pub const CUT_CONFIRM: c_int = 19;
}
