//! What is known of the communicator that was asked for last: programs use the same few again and
//! again.

use super::communicator::Comm;
use super::local_comms::RecentComm;
use super::predefined_comms::{find, my_rank};
use super::spawned_worker::is_spawned;
use crate::Runtime;
use crate::handles::VirtComm;
use crate::objects::objects;
use std::ffi::c_int;
use understudy_numbers::Worker;

/// Communicators are removed or replaced.
pub fn forget_recent(rt: &Runtime) {
    rt.objects.comm.forget_recent();
}

/// What `known` says of a communicator; nothing for `MPI_COMM_NULL` and for what is no
/// communicator.
#[inline(always)]
fn ask<T>(rt: &Runtime, comm: VirtComm, known: impl Fn(&RecentComm) -> T) -> Option<T> {
    let recent = rt.objects.comm.recent.get();
    // Two ways from here on: what both come to would be copied through memory.
    if recent.handle == comm.0 as u64 {
        Some(known(&recent))
    } else {
        Some(known(&look_up(rt, comm)?))
    }
}

/// The index of a communicator; nothing for `MPI_COMM_NULL` and for what is no communicator.
#[inline]
pub fn index(rt: &Runtime, comm: VirtComm) -> Option<u32> {
    ask(rt, comm, |recent| recent.index)
}

/// Whether it is an intracommunicator that every worker is a member of.
#[inline]
pub fn spans_all(rt: &Runtime, comm: VirtComm) -> bool {
    ask(rt, comm, |recent| recent.spans_all) == Some(true)
}

#[inline(never)]
fn look_up(rt: &Runtime, comm: VirtComm) -> Option<RecentComm> {
    let index = find(rt, comm)?;
    let all = objects(rt);
    let recipe = all.comms.get(index)?;
    let peers = peers(recipe);
    let first = peers.first().copied().unwrap_or_default();
    let recent = RecentComm {
        handle: comm.0 as u64,
        index,
        spans_all: recipe.collective_over_all,
        own: my_rank(rt, recipe).map(|rank| (rank as c_int, recipe.members.len() as c_int)),
        first,
        in_order: peers
            .iter()
            .zip(first.0..)
            .take_while(|(peer, next)| peer.0 == *next && !is_spawned(**peer))
            .count() as u32,
    };
    rt.objects.comm.recent.set(recent);
    Some(recent)
}

/// Rank of this process in its own group of a communicator, and the size of that.
#[inline]
pub fn rank_and_size(rt: &Runtime, comm: VirtComm) -> Option<(c_int, c_int)> {
    ask(rt, comm, |recent| recent.own)?
}

/// Those that messages go to: the remote group if there is one.
fn peers(comm: &Comm) -> &[Worker] {
    comm.remote.as_ref().unwrap_or(&comm.members)
}

/// The worker behind a rank that point-to-point communication on `comm` may name, if it is one.
#[inline]
pub fn worker_of(rt: &Runtime, comm: VirtComm, rank: c_int) -> Option<Worker> {
    let recent = rt.objects.comm.recent.get();
    // A negative rank is none, and greater than every length.
    if recent.handle == comm.0 as u64 && (rank as u32) < recent.in_order {
        Some(Worker(recent.first.0 + rank as u32))
    } else {
        look_behind(rt, comm, rank)
    }
}

#[inline(never)]
fn look_behind(rt: &Runtime, comm: VirtComm, rank: c_int) -> Option<Worker> {
    peers(objects(rt).comms.get(index(rt, comm)?)?)
        .get(rank as usize)
        .copied()
        .filter(|&worker| !is_spawned(worker))
}
