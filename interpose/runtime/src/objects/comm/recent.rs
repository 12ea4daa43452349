//! What is known of the communicator that was asked for last: programs use the same few again and again.

use super::{Comm, VirtComm, find, objects};
use crate::cell::Copied;
use std::ffi::c_int;

/// What most calls want to know of a communicator.
#[derive(Clone, Copy)]
pub(super) struct Recent {
    /// The program's handle.
    handle: u64,
    /// Its index.
    pub index: u32,
    /// Whether it is an intracommunicator that every worker is a member of.
    pub spans_all: bool,
    /// The worker behind the first rank that messages may name, and behind how many ranks from that on the next ones are, in order.
    first: u32,
    in_order: u32,
}

const NOTHING: Recent = Recent {
    handle: u64::MAX,
    index: u32::MAX,
    spans_all: false,
    first: 0,
    in_order: 0,
};

/// Always what the table would tell.
static RECENT: Copied<Recent> = Copied::new(NOTHING);

/// Communicators are removed or replaced.
pub fn forget_recent() {
    RECENT.set(NOTHING);
}

/// What is known of a communicator; nothing for `MPI_COMM_NULL` and for what is no communicator.
#[inline]
pub(super) fn known(comm: VirtComm) -> Option<Recent> {
    let recent = RECENT.get();
    if recent.handle == comm.0 as u64 {
        Some(recent)
    } else {
        look_up(comm)
    }
}

#[inline(never)]
fn look_up(comm: VirtComm) -> Option<Recent> {
    let index = find(comm)?;
    let all = objects();
    let recipe = all.comms.get(index)?;
    let peers = peers(recipe);
    let first = peers.first().copied().unwrap_or(0);
    let recent = Recent {
        handle: comm.0 as u64,
        index,
        spans_all: recipe.collective_over_all,
        first,
        in_order: peers
            .iter()
            .zip(first..)
            .take_while(|(peer, next)| *peer == next)
            .count() as u32,
    };
    RECENT.set(recent);
    Some(recent)
}

/// Those that messages go to: the remote group if there is one.
pub(super) fn peers(comm: &Comm) -> &[u32] {
    comm.remote.as_ref().unwrap_or(&comm.members)
}

/// The worker behind a rank that point-to-point communication on `comm` may name.
#[inline]
pub fn worker_of(comm: VirtComm, rank: c_int) -> Option<u32> {
    let recent = known(comm)?;
    // A negative rank is none, and greater than every length.
    if (rank as u32) < recent.in_order {
        Some(recent.first + rank as u32)
    } else {
        look_behind(recent.index, rank)
    }
}

#[inline(never)]
fn look_behind(index: u32, rank: c_int) -> Option<u32> {
    peers(objects().comms.get(index)?).get(rank as usize).copied()
}
