//! Participants of constructors without a common communicator (MPI 4.1, 7.4.2, 7.6.2 and 11.8).
//!
//! Before such a call all participants assemble ([`crate::cut::assemble`]). A [`Side`] lists the
//! members of one group and, at the leader, the leader of the other group. Participants of one call
//! find each other by the call's name: a hash of the arguments that are equal in all of them.
//! Simultaneous calls of several threads have different names.

use crate::Runtime;
use crate::handles::{VirtComm, VirtGroup};
use crate::objects::{comm, group};
use crate::schedule::{OtherSide, Side};
use crate::world;
use std::ffi::c_int;
use std::fmt::Arguments;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

/// Returns the hash of a description that is equal in all participants.
pub(super) fn name(description: Arguments<'_>) -> u64 {
    xxh3_64(description.to_string().as_bytes())
}

/// Returns the other leader, and the name that both leaders derive.
///
/// `None` if the other leader is this process or a spawned process.
fn other_side(rt: &Runtime, description: Arguments<'_>, leader: Worker) -> Option<OtherSide> {
    let me = world::worker(rt);
    let both = [me.min(leader), me.max(leader)];
    (leader != me && !comm::is_spawned(leader)).then(|| OtherSide {
        name: name(format_args!("{description} {both:?}")),
        leader,
    })
}

fn member_at(members: &[Worker], rank: c_int) -> Option<Worker> {
    members.get(usize::try_from(rank).ok()?).copied()
}

/// Returns the side of `MPI_Comm_create_group`, or of a constructor from a group alone.
///
/// `None` if this process is no member, or if the parent contains spawned processes.
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

/// Returns the side of `MPI_Intercomm_create_from_groups`.
///
/// Only the side of the leader contains the other leader.
pub(super) fn of_groups(
    rt: &Runtime,
    (group, leader): (VirtGroup, c_int),
    remote_leader: Option<Worker>,
    tag: u64,
) -> Option<Side> {
    let side = of_group(rt, None, group, tag)?;
    Some(Side {
        name: name(format_args!("groups {}", side.name)),
        leader: member_at(&side.members, leader)?,
        other: remote_leader
            .and_then(|leader| other_side(rt, format_args!("groups {tag}"), leader)),
        ..side
    })
}

/// Returns the side with all members of a communicator.
///
/// Spawned processes cannot take part: if some members are spawned, the side has only its leader,
/// and other members have no side.
fn of_comm(rt: &Runtime, comm: VirtComm, leader: c_int) -> Option<Side> {
    let comm = comm::get(rt, comm)?;
    let leader = member_at(&comm.members, leader)?;
    let members = match comm.has_spawned() {
        true => vec![leader],
        false => comm.members.to_vec(),
    };
    members.contains(&world::worker(rt)).then(|| Side {
        name: name(format_args!("comm {}", comm.uid)),
        members,
        leader,
        other: None,
    })
}

/// Returns the side of `MPI_Intercomm_create`.
///
/// Only the leader has the bridge. The side does not contain spawned processes, which do not have
/// the runtime.
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
        let leader = member_at(
            bridge.remote.as_ref().unwrap_or(&bridge.members),
            remote_leader,
        )?;
        other_side(rt, format_args!("bridge {} {tag}", bridge.uid), leader)
    });
    Some(Side { other, ..side })
}

/// Returns the side of a connection.
///
/// Only the root of the side contains the other root and the number of the connection.
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
        .then(|| other_side(rt, format_args!("connection {connection}"), other))
        .flatten();
    Some(Side { other, ..side })
}
