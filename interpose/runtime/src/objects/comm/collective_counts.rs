//! Counts of the blocking collectives that this process has entered on communicators of some workers.

use super::comm_entries::{get, get_mut};
use crate::handles::VirtComm;
use crate::objects::{Runtime, objects};
use understudy_numbers::Worker;

/// `uid` of a communicator of workers, this one, and the one that comes after it among the members of both groups.
pub fn neighbour(rt: &Runtime, comm: VirtComm) -> Option<(u64, Worker, Worker)> {
    let me = rt.comm.state.borrow().me;
    let comm = get(rt, comm).filter(|comm| !comm.has_spawned())?;
    Some((comm.uid, me, comm.after(me)))
}

/// A blocking collective over some workers is entered.
#[inline]
pub fn count_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.collectives += 1;
    }
}

/// It has come to nothing.
pub fn discount_collective(rt: &Runtime, comm: VirtComm) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.collectives -= 1;
    }
}

/// The sum over all communicators of what `share` makes of the `uid`, this worker, the one after it, and how many blocking collectives
/// this process has entered.
pub fn collectives(rt: &Runtime, share: impl Fn(u64, [Worker; 2]) -> u64) -> u64 {
    let (me, objects) = (rt.comm.state.borrow().me, objects(rt));
    let entered = objects
        .comms
        .iter()
        .map(|(_, comm)| comm)
        .filter(|comm| comm.collectives > 0);
    let shares =
        entered.map(|comm| share(comm.uid, [me, comm.after(me)]).wrapping_mul(comm.collectives));
    shares.fold(0, u64::wrapping_add)
}
