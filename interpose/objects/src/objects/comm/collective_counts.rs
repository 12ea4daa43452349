//! Counts of blocking collectives that this process has entered.
//!
//! Only collectives on communicators of some workers are counted.

use super::comm_entries::{get, get_mut};
use crate::Runtime;
use crate::handles::VirtComm;
use crate::objects::objects;
use understudy_numbers::Worker;

/// Returns the `uid` of a communicator of workers, this worker, and the next one.
///
/// The next worker is the one that follows this worker among the members of both groups.
pub fn ring_neighbour(rt: &Runtime, comm: VirtComm) -> Option<(u64, Worker, Worker)> {
    let me = rt.objects.comm.state.borrow().me;
    let comm = get(rt, comm).filter(|comm| !comm.has_spawned())?;
    Some((comm.uid, me, comm.next_member(me)))
}

/// Counts a blocking collective over some workers, at its entry.
#[inline]
pub fn count_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.collectives += 1;
    }
}

/// Reverses [`count_collective`] for a collective that was not carried out.
pub fn uncount_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.collectives -= 1;
    }
}

/// Adds up over all communicators what `share` returns for each.
///
/// `share` gets the `uid`, this worker and the one after it. Each share is multiplied by the
/// number of blocking collectives that this process has entered.
pub fn sum_of_collectives(rt: &Runtime, share: impl Fn(u64, [Worker; 2]) -> u64) -> u64 {
    let (me, objects) = (rt.objects.comm.state.borrow().me, objects(rt));
    let entered = objects
        .comms
        .iter()
        .map(|(_, comm)| comm)
        .filter(|comm| comm.collectives > 0);
    let shares = entered
        .map(|comm| share(comm.uid, [me, comm.next_member(me)]).wrapping_mul(comm.collectives));
    shares.fold(0, u64::wrapping_add)
}
