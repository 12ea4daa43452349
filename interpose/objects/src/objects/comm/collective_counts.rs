//! Counts of blocking collectives that this process has entered.
//!
//! A cut must not separate the members of a collective: either all members have entered the
//! collective, or none has. For collectives of all workers the cut point itself ensures this
//! condition. For all other collectives the workers add up their shares: each collective that a
//! member has entered contributes the member's number minus the next member's number, so the sum is
//! zero only if all members have entered equally many collectives on each communicator (see
//! [`freed`](super::freed) for an example of such a sum).

use super::comm_entries::get;
use crate::Runtime;
use crate::handles::VirtComm;
use crate::objects::objects;
use understudy_numbers::Worker;

/// Returns the `uid` of a communicator of workers, this worker, and the next member.
///
/// The next member is the one with the next higher number, in either group; the first member
/// follows the last one. `None` if spawned processes are members.
pub fn ring_neighbour(rt: &Runtime, comm: VirtComm) -> Option<(u64, Worker, Worker)> {
    let me = rt.objects.comm.state.borrow().me;
    let comm = get(rt, comm).filter(|comm| !comm.has_spawned())?;
    Some((comm.uid, me, comm.next_member(me)))
}

/// Counts a blocking collective over some workers, at its entry.
#[inline]
pub fn count_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(comm) = get(rt, comm) {
        comm.collectives.set(comm.collectives.get() + 1);
    }
}

/// Reverses [`count_collective`] for a collective that was not carried out.
pub fn uncount_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(comm) = get(rt, comm) {
        comm.collectives.set(comm.collectives.get() - 1);
    }
}

/// Returns the sum of this worker's shares of all blocking collectives that it has entered.
///
/// `share` returns the share of one collective, from the communicator's `uid`, this worker and the
/// next member.
pub fn sum_of_collectives(rt: &Runtime, share: impl Fn(u64, [Worker; 2]) -> u64) -> u64 {
    let (me, objects) = (rt.objects.comm.state.borrow().me, objects(rt));
    let entered = objects
        .comms
        .iter()
        .map(|(_, comm)| comm)
        .filter(|comm| comm.collectives.get() > 0);
    let shares = entered.map(|comm| {
        share(comm.uid, [me, comm.next_member(me)]).wrapping_mul(comm.collectives.get())
    });
    shares.fold(0, u64::wrapping_add)
}
