//! Cache of the communicator that was queried most recently.
//!
//! Programs use a few communicators in most calls.

use super::communicator::Comm;
use super::local_comms::RecentComm;
use super::predefined_comms::{find_index, my_rank};
use super::spawned_worker::is_spawned;
use crate::Runtime;
use crate::handles::VirtComm;
use crate::objects::objects;
use std::ffi::c_int;
use understudy_numbers::Worker;

/// Discards the cache, since communicators are removed or replaced.
pub fn discard_recent(rt: &Runtime) {
    rt.objects.comm.discard_recent();
}

/// Applies `read` to the data of a communicator.
///
/// Returns `None` for `MPI_COMM_NULL` and for an invalid handle.
#[inline(always)]
fn query<T>(rt: &Runtime, comm: VirtComm, read: impl Fn(&RecentComm) -> T) -> Option<T> {
    let recent = rt.objects.comm.recent.get();
    // `read` is called on both paths: a single call after both would copy the data through memory.
    if recent.handle == comm.0 as u64 {
        Some(read(&recent))
    } else {
        Some(read(&find_comm(rt, comm)?))
    }
}

/// Returns the index of a communicator; `None` for `MPI_COMM_NULL` and for an invalid handle.
#[inline]
pub fn index(rt: &Runtime, comm: VirtComm) -> Option<u32> {
    query(rt, comm, |recent| recent.index)
}

/// True if `comm` is an intracommunicator of all workers.
#[inline]
pub fn spans_all(rt: &Runtime, comm: VirtComm) -> bool {
    query(rt, comm, |recent| recent.spans_all) == Some(true)
}

#[inline(never)]
fn find_comm(rt: &Runtime, comm: VirtComm) -> Option<RecentComm> {
    let index = find_index(rt, comm)?;
    let all = objects(rt);
    let recipe = all.comms.get(index)?;
    let peers = peers(recipe);
    let first = peers.first().copied().unwrap_or_default();
    let recent = RecentComm {
        handle: comm.0 as u64,
        index,
        spans_all: recipe.collective_over_all,
        rank_and_size: my_rank(rt, recipe)
            .map(|rank| (rank as c_int, recipe.members.len() as c_int)),
        first_worker: first,
        consecutive_ranks: peers
            .iter()
            .zip(first.0..)
            .take_while(|(peer, next)| peer.0 == *next && !is_spawned(**peer))
            .count() as u32,
    };
    rt.objects.comm.recent.set(recent);
    Some(recent)
}

/// Returns the rank of this process in the local group, and the group's size.
#[inline]
pub fn rank_and_size(rt: &Runtime, comm: VirtComm) -> Option<(c_int, c_int)> {
    query(rt, comm, |recent| recent.rank_and_size)?
}

/// Returns the group that messages are sent to: the remote group if there is one.
fn peers(comm: &Comm) -> &[Worker] {
    comm.remote.as_ref().unwrap_or(&comm.members)
}

/// Returns the worker that receives point-to-point messages to `rank` on `comm`.
///
/// `None` if the receiver is not a worker.
#[inline]
pub fn worker_of(rt: &Runtime, comm: VirtComm, rank: c_int) -> Option<Worker> {
    let recent = rt.objects.comm.recent.get();
    // As an unsigned number, a negative rank is greater than every length.
    if recent.handle == comm.0 as u64 && (rank as u32) < recent.consecutive_ranks {
        Some(Worker(recent.first_worker.0 + rank as u32))
    } else {
        find_worker(rt, comm, rank)
    }
}

#[inline(never)]
fn find_worker(rt: &Runtime, comm: VirtComm, rank: c_int) -> Option<Worker> {
    peers(objects(rt).comms.get(index(rt, comm)?)?)
        .get(rank as usize)
        .copied()
        .filter(|&worker| !is_spawned(worker))
}
