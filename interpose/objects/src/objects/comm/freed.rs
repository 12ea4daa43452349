//! Communicators that this process has freed, but perhaps not all other members.
//!
//! `MPI_Comm_free` does not wait for other members (MPI 4.1, 7.4.3). At a cut, some members may
//! therefore have freed a communicator and others not. This process may also have requests on it,
//! including persistent ones that it starts later. The recipe stays until all members have freed
//! the communicator and have no such requests: after a rollback all of them rebuild it. While there
//! are requests, the real communicator stays too, since a message may arrive before the program
//! asks for it.
//!
//! A sum over all workers detects that a communicator is unused. The members form a ring. Each
//! member adds a number of its own and subtracts the number of the next member.
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

/// Frees a communicator.
///
/// The real one stays if the program has requests on it; the entry stays in any case.
pub fn free(rt: &Runtime, index: u32, has_requests: bool) -> c_int {
    if has_requests {
        if let Some(comm) = objects_mut(rt).comms.get_mut(index) {
            comm.is_freed = true;
        }
        return errors::SUCCESS;
    }
    let mut real = real_comm(rt, handle(rt, index));
    // SAFETY: a communicator of the runtime. The procedure is local in all supported libraries.
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

/// Frees real communicators once more after a recovery, unless the program has requests there.
///
/// Must be called after requests have been reposted.
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
        // SAFETY: a communicator of the runtime.
        unsafe { real::PMPI_Comm_free(&mut real) };
    }
}

fn freed_indices(rt: &Runtime, is_meant: impl Fn(&Comm) -> bool) -> Vec<u32> {
    let objects = objects(rt);
    let is_freed = |comm: &Comm| comm.is_freed && !comm.has_spawned() && is_meant(comm);
    let freed = objects.comms.iter().filter(|(_, comm)| is_freed(comm));
    freed.map(|(index, _)| index).collect()
}

/// Returns freed communicators with all members in `workers`, and this process's share of their
/// sum.
///
/// Without `workers`, returns all freed communicators. If the sum over all workers is zero, all of
/// these communicators may be [removed](remove).
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

/// Removes a communicator that was disconnected, or a window with spawned processes that was freed.
///
/// A communicator of workers only counts as freed, since another member may keep it: one whose
/// attribute cannot be deleted. The entry of any other communicator is removed.
///
/// No message is in flight to a spawned process that no other communicator leads to (MPI 4.1,
/// 11.10.4). Communicators that were freed before, and lead only to such processes, are therefore
/// removed too.
pub fn remove_disconnected(rt: &Runtime, index: u32) {
    if !objects(rt).comms.get(index).is_some_and(Comm::has_spawned) {
        return mark_freed(rt, index);
    }
    let gone = objects_mut(rt).comms.remove(index);
    disconnect(rt, index);
    let Some(gone) = gone else { return };
    let mut parted = std::mem::take(&mut dynamic::get_mut(rt).disconnected);
    let quiet = {
        let all = objects(rt);
        let comms: Vec<(u32, &Comm)> = all.comms.iter().collect();
        parted.extend(newly_unreachable(&gone, &comms));
        unreachable_comms(&comms, &parted)
    };
    remove(rt, &quiet);
    let is_any = objects(rt).comms.iter().any(|(_, comm)| comm.has_spawned());
    dynamic::get_mut(rt).disconnected = if is_any { parted } else { BTreeSet::new() };
}

/// Returns the spawned processes of `gone` to which no other communicator leads.
///
/// Freed communicators do not count.
fn newly_unreachable(gone: &Comm, comms: &[(u32, &Comm)]) -> Vec<Worker> {
    let leads_to =
        |comm: &Comm, one: Worker| !comm.is_freed && comm.workers().any(|other| other == one);
    let is_left = |one: Worker| !comms.iter().any(|(_, comm)| leads_to(comm, one));
    gone.workers()
        .filter(|&one| is_spawned(one) && is_left(one))
        .collect()
}

/// Returns the freed communicators all of whose spawned processes have been disconnected.
fn unreachable_comms(comms: &[(u32, &Comm)], parted: &BTreeSet<Worker>) -> Vec<u32> {
    let is_quiet = |comm: &Comm| {
        let mut spawned = comm.workers().filter(|&one| is_spawned(one));
        comm.is_freed && comm.has_spawned() && spawned.all(|one| parted.contains(&one))
    };
    let quiet = comms.iter().filter(|(_, comm)| is_quiet(comm));
    quiet.map(|&(index, _)| index).collect()
}

/// Returns a member's share of the sum, which requests make nonzero.
fn ring_share(comm: &Comm, me: Worker, has_requests: bool) -> u64 {
    let of = |worker: Worker| {
        xxh3_64(
            [comm.uid, u64::from(worker.0)]
                .map(u64::to_le_bytes)
                .as_flattened(),
        )
    };
    match has_requests {
        true => of(me).rotate_left(1) | 1,
        false => of(me).wrapping_sub(of(comm.next_member(me))),
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
            collectives: 0,
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
        let mut parted: BTreeSet<Worker> = newly_unreachable(&first, &left).into_iter().collect();
        assert_eq!(parted, [1, 2].map(|one| Worker(SPAWNED + one)).into());
        assert_eq!(
            unreachable_comms(&left, &parted),
            [4],
            "3 was not disconnected"
        );
        parted.extend(newly_unreachable(&with(&[3], false), &left[1..]));
        assert_eq!(unreachable_comms(&left[1..], &parted), [5, 6]);
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
            remote: Some(vec![Worker(1), Worker(3)]),
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
