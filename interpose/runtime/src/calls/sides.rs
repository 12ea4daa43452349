//! Which processes call a constructor that no communicator of all of them is for (MPI 4.1, 7.4.2,
//! 7.6.2 and 11.8).
//!
//! Both sides of an intercommunicator, and all members of a group, find the same names, however
//! many threads make such calls.

use crate::Runtime;
use crate::handles::{VirtComm, VirtGroup};
use crate::objects::{comm, group};
use crate::schedule::{Other, Side};
use crate::world;
use std::ffi::c_int;
use std::fmt::Arguments;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

/// A name that others find, too.
pub(super) fn name(of: Arguments<'_>) -> u64 {
    xxh3_64(of.to_string().as_bytes())
}

/// What two leaders call their assembly.
fn of_both(rt: &Runtime, what: Arguments<'_>, leader: Worker) -> Option<Other> {
    let me = world::worker(rt);
    let both = [me.min(leader), me.max(leader)];
    (leader != me && !comm::is_spawned(leader)).then(|| Other {
        name: name(format_args!("{what} {both:?}")),
        leader,
    })
}

fn at(members: &[Worker], rank: c_int) -> Option<Worker> {
    members.get(usize::try_from(rank).ok()?).copied()
}

/// Of `MPI_Comm_create_group`, and of one that comes from a group alone.
pub(super) fn of_group(
    rt: &Runtime,
    parent: Option<VirtComm>,
    group: VirtGroup,
    tag: u64,
) -> Option<Side> {
    let members = group::members(rt, group)?;
    let uid = match parent {
        Some(comm) => Some(comm::get(rt, comm).filter(|comm| !comm.has_spawned())?.uid),
        None => None,
    };
    let name = name(format_args!("group {uid:?} {tag} {members:?}"));
    members.contains(&world::worker(rt)).then(|| Side {
        name,
        leader: members[0],
        members,
        other: None,
    })
}

/// One of `MPI_Intercomm_create_from_groups`; the other leader is known to the leader.
pub(super) fn of_groups(
    rt: &Runtime,
    (group, leader): (VirtGroup, c_int),
    remote_leader: Option<Worker>,
    tag: u64,
) -> Option<Side> {
    let side = of_group(rt, None, group, tag)?;
    Some(Side {
        name: name(format_args!("groups {}", side.name)),
        leader: at(&side.members, leader)?,
        other: remote_leader.and_then(|leader| of_both(rt, format_args!("groups {tag}"), leader)),
        ..side
    })
}

/// Of all members of a communicator; where some are spawned processes, which say nothing, of its
/// leader alone.
fn of_comm(rt: &Runtime, comm: VirtComm, leader: c_int) -> Option<Side> {
    let comm = comm::get(rt, comm)?;
    let leader = at(&comm.members, leader)?;
    let members = match comm.has_spawned() {
        true => vec![leader],
        false => comm.members.clone(),
    };
    members.contains(&world::worker(rt)).then(|| Side {
        name: name(format_args!("comm {}", comm.uid)),
        members,
        leader,
        other: None,
    })
}

/// One of `MPI_Intercomm_create`. The leader alone knows the bridge; whoever waits there without
/// the layer is not waited for here.
pub(super) fn of_intercomm(
    rt: &Runtime,
    (local, leader): (VirtComm, c_int),
    (bridge, remote_leader): (VirtComm, c_int),
    tag: c_int,
) -> Option<Side> {
    let side = of_comm(rt, local, leader)?;
    let bridge = comm::get(rt, bridge)
        .filter(|bridge| side.leader == world::worker(rt) && !bridge.has_spawned());
    let other = bridge.and_then(|bridge| {
        let leader = at(
            bridge.remote.as_ref().unwrap_or(&bridge.members),
            remote_leader,
        )?;
        of_both(rt, format_args!("bridge {} {tag}", bridge.uid), leader)
    });
    Some(Side { other, ..side })
}

/// One of a connection; its root knows the other one, and the connection.
pub(super) fn of_connection(
    rt: &Runtime,
    comm: VirtComm,
    root: c_int,
    other: Worker,
    connection: u64,
) -> Option<Side> {
    let side = of_comm(rt, comm, root)?;
    let leads = side.leader == world::worker(rt);
    let other = leads
        .then(|| of_both(rt, format_args!("connection {connection}"), other))
        .flatten();
    Some(Side { other, ..side })
}
