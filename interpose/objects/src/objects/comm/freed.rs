//! Communicators that this process has freed, but perhaps not all other members.
//!
//! `MPI_Comm_free` does not wait for other members (MPI 4.1, 7.4.3). At a cut, some members may
//! therefore have freed a communicator and others not. This process may also have requests on the
//! communicator, including persistent ones that it starts later. The recipe stays until all members
//! have freed the communicator and have no such requests, because after a rollback all members
//! rebuild the communicator. While there are requests, the real communicator stays too, since the
//! messages for these requests arrive on it.
//!
//! A sum over all workers detects that all freed communicators are unused. The members of a
//! communicator form a ring, in which each member has a number, the hash *h* of its rank and the
//! `uid`. A member that has freed the communicator contributes its own number minus the number of
//! the next member; all other members contribute nothing. With the members 0, 2 and 5:
//!
//! ```text
//!   all have freed    (h0 - h2) + (h2 - h5) + (h5 - h0)  =  0
//!   2 has not         (h0 - h2)             + (h5 - h0)  =  h5 - h2  ≠  0
//! ```
//!
//! All communicators share the sum, since sums of different hashes cancel only by a collision. A
//! member with requests contributes another number, which nothing cancels.
#![allow(unsafe_code)]

use super::communicator::{Comm, SELF};
use super::predefined_comms::handle;
use super::spawned_worker::is_spawned;
use crate::Runtime;
use crate::errors;
use crate::generated::{HandleKind, real};
use crate::handles::{self, VirtComm, real_comm};
use crate::objects::{dynamic, objects, objects_mut};
use std::collections::BTreeSet;
use std::ffi::c_int;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;
use xxhash_rust::xxh3::xxh3_64;

/// Frees a communicator for the program.
///
/// The real communicator stays if the program has requests on it; the entry stays in any case.
pub fn free(rt: &Runtime, index: u32, has_requests: bool) -> c_int {
    if has_requests {
        if let Some(comm) = objects_mut(rt).comms.get_mut(index) {
            comm.is_freed = true;
        }
        return errors::SUCCESS;
    }
    let mut real = real_comm(rt, handle(rt, index));
    // SAFETY: the communicator has no requests, and its entry loses the handle below. The procedure
    // is local in all supported libraries.
    let rc = unsafe { real::PMPI_Comm_free(&mut real) };
    if rc == errors::SUCCESS {
        mark_freed(rt, index);
    }
    rc
}

/// Marks a communicator whose real one has been freed; the entry stays.
fn mark_freed(rt: &Runtime, index: u32) {
    if let Some(comm) = objects_mut(rt).comms.get_mut(index) {
        comm.is_freed = true;
    }
    disconnect(rt, index);
}

fn disconnect(rt: &Runtime, index: u32) {
    rt.objects.comm.discard_recent();
    handles::set_real(rt, HandleKind::Comm, index, std::ptr::null_mut());
}

/// Frees the real communicators that a recovery has rebuilt for freed ones.
///
/// A communicator with requests of the program stays. Must be called after requests have been
/// reposted.
pub fn free_after_recovery(rt: &Runtime, has_requests: impl Fn(VirtComm) -> bool) {
    for index in freed_indices(rt, |_| true) {
        if !has_requests(handle(rt, index)) {
            free_real(rt, index);
        }
    }
}

/// Frees the real communicator, if it still exists.
fn free_real(rt: &Runtime, index: u32) {
    let mut real: RealComm = real_comm(rt, handle(rt, index));
    disconnect(rt, index);
    if !real.0.is_null() {
        // SAFETY: the entry has just lost this handle, so no other code uses the communicator.
        unsafe { real::PMPI_Comm_free(&mut real) };
    }
}

/// Returns the freed communicators of workers that satisfy a condition.
fn freed_indices(rt: &Runtime, condition: impl Fn(&Comm) -> bool) -> Vec<u32> {
    let objects = objects(rt);
    let is_freed = |comm: &Comm| comm.is_freed && !comm.has_spawned() && condition(comm);
    let freed = objects.comms.iter().filter(|(_, comm)| is_freed(comm));
    freed.map(|(index, _)| index).collect()
}

/// Returns the freed communicators whose members are all in `workers`, and this process's share.
///
/// Without `workers`, returns all freed communicators. If the shares of `workers`, or of all
/// workers without this argument, add up to zero, all of these communicators may be
/// [removed](remove).
pub fn freed_within(
    rt: &Runtime,
    workers: Option<&[Worker]>,
    has_requests: impl Fn(VirtComm) -> bool,
) -> (Vec<u32>, u64) {
    let is_within = |comm: &Comm| {
        workers.is_none_or(|workers| comm.workers().all(|one| workers.contains(&one)))
    };
    let indices = freed_indices(rt, is_within);
    let (me, objects) = (rt.objects.comm.state.borrow().me, objects(rt));
    let recipes = indices
        .iter()
        .filter_map(|&index| Some((index, objects.comms.get(index)?)));
    let shares = recipes.map(|(index, comm)| ring_share(comm, me, has_requests(handle(rt, index))));
    let sum = shares.fold(0, u64::wrapping_add);
    (indices, sum)
}

/// Removes communicators that no member needs any more.
pub fn remove(rt: &Runtime, indices: &[u32]) {
    for &index in indices.iter().filter(|&&index| index > SELF) {
        free_real(rt, index);
        objects_mut(rt).comms.remove(index);
    }
}

/// Removes a disconnected communicator, or that of a freed window with spawned processes.
///
/// The entry of a communicator of workers stays, marked as freed: another member, in which a delete
/// callback has failed, may still have the communicator. The entry of a communicator with spawned
/// processes is removed.
///
/// `MPI_Comm_disconnect` waits for all messages (MPI 4.1, 11.10.4). A spawned process that no other
/// communicator contains is therefore disconnected: no message is in flight to that process.
/// Communicators that were freed before, and whose spawned processes are all disconnected, are
/// removed too.
pub fn remove_disconnected(rt: &Runtime, index: u32) {
    if !objects(rt).comms.get(index).is_some_and(Comm::has_spawned) {
        return mark_freed(rt, index);
    }
    let removed = objects_mut(rt).comms.remove(index);
    disconnect(rt, index);
    let Some(removed) = removed else { return };
    let mut disconnected = std::mem::take(&mut dynamic::get_mut(rt).disconnected);
    let unreachable = {
        let all = objects(rt);
        let comms: Vec<(u32, &Comm)> = all.comms.iter().collect();
        disconnected.extend(newly_unreachable(&removed, &comms));
        unreachable_comms(&comms, &disconnected)
    };
    remove(rt, &unreachable);
    let is_any = objects(rt).comms.iter().any(|(_, comm)| comm.has_spawned());
    dynamic::get_mut(rt).disconnected = if is_any {
        disconnected
    } else {
        BTreeSet::new()
    };
}

/// Returns the spawned processes of `removed` that no other communicator contains.
///
/// Freed communicators do not count.
fn newly_unreachable(removed: &Comm, comms: &[(u32, &Comm)]) -> Vec<Worker> {
    let contains = |comm: &Comm, process: Worker| {
        !comm.is_freed && comm.workers().any(|other| other == process)
    };
    let is_unreachable = |process: Worker| !comms.iter().any(|(_, comm)| contains(comm, process));
    removed
        .workers()
        .filter(|&process| is_spawned(process) && is_unreachable(process))
        .collect()
}

/// Returns the freed communicators all of whose spawned processes have been disconnected.
fn unreachable_comms(comms: &[(u32, &Comm)], disconnected: &BTreeSet<Worker>) -> Vec<u32> {
    let is_unreachable = |comm: &Comm| {
        let mut spawned = comm.workers().filter(|&worker| is_spawned(worker));
        let is_disconnected = |process| disconnected.contains(&process);
        comm.is_freed && comm.has_spawned() && spawned.all(is_disconnected)
    };
    let unreachable = comms.iter().filter(|(_, comm)| is_unreachable(comm));
    unreachable.map(|&(index, _)| index).collect()
}

/// Returns this member's share of the sum for one freed communicator.
fn ring_share(comm: &Comm, me: Worker, has_requests: bool) -> u64 {
    let number = |worker: Worker| {
        xxh3_64(
            [comm.uid, u64::from(worker.0)]
                .map(u64::to_le_bytes)
                .as_flattened(),
        )
    };
    match has_requests {
        true => number(me).rotate_left(1) | 1,
        false => number(me).wrapping_sub(number(comm.next_member(me))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::comm::Topology;

    fn comm(uid: u64, members: &[u32]) -> Comm {
        Comm {
            uid,
            members: members.iter().copied().map(Worker).collect(),
            remote: None,
            topology: Topology::None,
            name: None,
            errhandler: 0,
            attributes: Vec::new(),
            info: Vec::new(),
            collective_over_all: false,
            derived_numbers: 0,
            collectives: 0.into(),
            variable_changes: 0,
            first_collectives: Vec::new(),
            session: 0,
            is_freed: true,
        }
    }

    #[test]
    fn freed_comms_are_removed_with_disconnected_processes() {
        const SPAWNED: u32 = 1 << 31;
        let with = |spawned: &[u32], is_freed: bool| Comm {
            remote: Some(spawned.iter().map(|one| Worker(SPAWNED + one)).collect()),
            is_freed,
            ..comm(1, &[0, 1])
        };
        let (first, freed, other, both) = (
            with(&[1, 2], false),
            with(&[2], true),
            with(&[3], true),
            with(&[1, 3], true),
        );
        let left = [(4, &freed), (5, &other), (6, &both)];
        let mut disconnected: BTreeSet<Worker> =
            newly_unreachable(&first, &left).into_iter().collect();
        assert_eq!(disconnected, [1, 2].map(|one| Worker(SPAWNED + one)).into());
        assert_eq!(
            unreachable_comms(&left, &disconnected),
            [4],
            "3 was not disconnected"
        );
        disconnected.extend(newly_unreachable(&with(&[3], false), &left[1..]));
        assert_eq!(unreachable_comms(&left[1..], &disconnected), [5, 6]);
        // Another communicator leads to 2, and has not been freed.
        let stays = with(&[2], false);
        let left = [(4, &freed), (7, &stays)];
        assert_eq!(newly_unreachable(&first, &left), [Worker(SPAWNED + 1)]);
        assert!(unreachable_comms(&left, &BTreeSet::from([Worker(SPAWNED + 1)])).is_empty());
    }

    #[test]
    fn the_sum_is_zero_when_all_have_freed_and_have_no_requests() {
        let (one, other) = (comm(7, &[2, 0, 5]), comm(8, &[5, 2]));
        let both = Comm {
            remote: Some(vec![Worker(1), Worker(3)].into()),
            ..comm(9, &[4, 0])
        };
        let sum = |shares: &[(&Comm, u32, bool)]| {
            let shares = shares
                .iter()
                .map(|&(comm, me, used)| ring_share(comm, Worker(me), used));
            shares.fold(0, u64::wrapping_add)
        };
        let whole = [
            (&one, 0, false),
            (&one, 2, false),
            (&one, 5, false),
            (&other, 5, false),
        ];
        assert_ne!(sum(&whole), 0, "worker 2 has not freed the second");
        assert_eq!(sum(&[&whole[..], &[(&other, 2, false)]].concat()), 0);
        assert_ne!(sum(&[&whole[..], &[(&other, 2, true)]].concat()), 0);
        let groups = [0, 1, 3, 4].map(|me| (&both, me, false));
        assert_eq!(sum(&groups), 0);
        assert_ne!(sum(&groups[..3]), 0);
        assert_eq!(sum(&[(&comm(6, &[3]), 3, false)]), 0);
    }
}
