//! Counts of messages and of collective operations that this process has started.

use super::request::MessageArguments;
use super::request_borrows::{table, table_mut};
use super::request_recipe::share_of;
use super::synchronous;
use super::worker_counts::WorkerCounts;
use crate::Runtime;
use crate::handles::VirtComm;
use crate::objects::comm;
use std::ffi::c_int;
use understudy_mpi::real_types::Status;
use understudy_numbers::Worker;

impl MessageArguments {
    /// Returns the peer; `None` for `MPI_PROC_NULL`, wildcards and spawned processes.
    pub fn worker(&self, rt: &Runtime) -> Option<Worker> {
        comm::worker_of(rt, self.comm(), self.peer)
    }
}

/// Starts counting for this many workers.
pub fn init(rt: &Runtime, workers: u32) {
    let mut table = table_mut(rt);
    table.sent = WorkerCounts::new(workers);
    table.received = WorkerCounts::new(workers);
}

/// Resets the counts at a cut, where all sent messages have been received.
pub fn restart_counts(rt: &Runtime) {
    let mut table = table_mut(rt);
    table.sent.reset();
    table.received.reset();
}

/// Adds this process's share of a started operation to the sum that a cut checks.
///
/// At a cut, either all participants or none must have started the operation.
pub fn count_started(rt: &Runtime, share: u64) {
    let started = &mut table_mut(rt).started;
    *started = started.wrapping_add(share);
}

/// Returns this process's share of the sum over all started operations.
///
/// A sum of zero over all workers means that no operation has been started by only some of its
/// participants.
pub fn sum_of_started(rt: &Runtime) -> u64 {
    table(rt)
        .started
        .wrapping_add(comm::sum_of_collectives(rt, |uid, me_and_next| {
            share_of(me_and_next, uid, 0)
        }))
}

/// Returns the number of the next partitioned message with these ends, tag and communicator.
///
/// `pair` is the hash of ends, tag and communicator ([`super::RequestIdentity`]). Sent and received
/// messages are counted separately.
pub fn next_partitioned(rt: &Runtime, pair: u64, is_send: bool) -> u64 {
    let next = &mut table_mut(rt).partitioned;
    let next = next.entry((pair, is_send)).or_default();
    *next += 1;
    *next
}

/// Counts a message that has been sent to this peer with this tag.
#[inline(always)]
pub fn count_sent(rt: &Runtime, comm: VirtComm, to: (c_int, c_int)) {
    let worker = receiver(rt, comm, to);
    table_mut(rt).count_sent(worker);
}

/// Counts a message as a follower of synchronous sends, and returns its receiver.
#[inline(always)]
pub(super) fn receiver(
    rt: &Runtime,
    comm: VirtComm,
    (peer, tag): (c_int, c_int),
) -> Option<Worker> {
    synchronous::count_follower(rt, comm, peer, tag);
    comm::worker_of(rt, comm, peer)
}

/// Records that a receive is cancelled by a call of this process.
pub fn record_cancellation(rt: &Runtime) {
    rt.requests.has_cancelled.set(true);
}

/// True if the library has cancelled a receive by itself.
///
/// MPICH does so, with a code of success, if UCX stops the receive because the sender has failed.
/// Once this process has cancelled a receive, the cases cannot be distinguished, and the result is
/// false.
#[inline]
pub fn is_cancelled_by_library(rt: &Runtime, status: &Status) -> bool {
    status.cancelled != 0 && !rt.requests.has_cancelled.get()
}

/// Counts a received message, unless the receive was cancelled.
#[inline(always)]
pub fn count_received(rt: &Runtime, comm: VirtComm, status: &Status) {
    if status.cancelled == 0 {
        let worker = comm::worker_of(rt, comm, status.source);
        table_mut(rt).count_received(worker);
    }
}
