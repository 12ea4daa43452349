//! Processes that the program has spawned (MPI 4.1, 11.8) and that are not workers.
//!
//! Each process gives its own numbers to the spawned processes that it encounters. A number denotes
//! one process as long as a communicator of this process contains that process. A number is never
//! reused, so groups can always distinguish their members.
#![allow(unsafe_code)]

use super::predefined_comms::handle;
use super::spawned_worker::FIRST_SPAWNED;
use crate::Runtime;
use crate::generated::real;
use crate::handles::{self, VirtGroup, real_comm, real_group};
use crate::objects::{dynamic, objects};
use std::ffi::c_int;
use understudy_mpi::real_types::{RealComm, RealGroup};
use understudy_mpi::{self as mpi, check};
use understudy_numbers::{Worker, WorkerList};

/// Procedure that returns the local or the remote group.
pub type GroupProcedure = fn(RealComm, &mut RealGroup) -> c_int;

pub fn own_group(comm: RealComm, group: &mut RealGroup) -> c_int {
    // SAFETY: a local query with a variable for the result; the library checks the communicator.
    unsafe { real::PMPI_Comm_group(comm, group) }
}

pub fn remote_group(comm: RealComm, group: &mut RealGroup) -> c_int {
    // SAFETY: a local query with a variable for the result; the library checks the communicator.
    unsafe { real::PMPI_Comm_remote_group(comm, group) }
}

/// Applies `then` to the local or the remote group of a communicator. Local.
pub fn with_group<T>(
    rt: &Runtime,
    comm: RealComm,
    procedure: GroupProcedure,
    then: impl FnOnce(RealGroup) -> mpi::Result<T>,
) -> mpi::Result<T> {
    let mut group = real_group(
        rt,
        VirtGroup(handles::predefined_handle(rt, "ompi_mpi_group_null")),
    );
    check(procedure(comm, &mut group))?;
    let outcome = then(group);
    // SAFETY: `procedure` has created the group, and `then` has ended.
    unsafe { real::PMPI_Group_free(&mut group) };
    outcome
}

/// Visits the groups of all communicators with spawned processes, except freed communicators.
///
/// `then` gets each real group and the numbers of its members.
pub fn visit(
    rt: &Runtime,
    mut then: impl FnMut(RealGroup, &[Worker]) -> mpi::Result<()>,
) -> mpi::Result<()> {
    let mut groups: Vec<(RealComm, GroupProcedure, WorkerList)> = Vec::new();
    for (index, comm) in objects(rt).comms.iter() {
        if comm.has_spawned() && !comm.is_freed {
            let real = real_comm(rt, handle(rt, index));
            // The entry of a window's members has no real communicator.
            if real.0.is_null() {
                continue;
            }
            let others = comm.remote.clone();
            groups.push((real, own_group, comm.members.clone()));
            groups.extend(others.map(|others| (real, remote_group as GroupProcedure, others)));
        }
    }
    groups
        .into_iter()
        .try_for_each(|(comm, procedure, members)| {
            with_group(rt, comm, procedure, |group| then(group, &members))
        })
}

/// Returns the numbers of the members of a real group. Local.
///
/// The members are workers and spawned processes. A spawned process that has no number yet gets
/// one.
pub fn members(rt: &Runtime, group: RealGroup) -> mpi::Result<Vec<Worker>> {
    let mut size = 0;
    // SAFETY: a local query with a variable for the result; the library checks the group.
    check(unsafe { real::PMPI_Group_size(group, &mut size) })?;
    let mut found = vec![None; size.max(0) as usize];
    let world = real_comm(rt, super::predefined_comms::world_handle(rt));
    with_group(rt, world, own_group, |all| {
        enter_members(group, all, &mut found, |rank| Some(Worker(rank as u32)))
    })?;
    visit(rt, |known, numbers| {
        enter_members(group, known, &mut found, |rank| numbers.get(rank).copied())
    })?;
    let known_or_new = |found: Option<Worker>| {
        found.unwrap_or_else(|| {
            let mut dynamic = dynamic::get_mut(rt);
            dynamic.known_spawned += 1;
            Worker(FIRST_SPAWNED + dynamic.known_spawned)
        })
    };
    Ok(found.into_iter().map(known_or_new).collect())
}

/// Enters in `found` the missing members of `group` that are members of `within`.
///
/// `number` returns the number of the process at a rank of `within`.
fn enter_members(
    group: RealGroup,
    within: RealGroup,
    found: &mut [Option<Worker>],
    number: impl Fn(usize) -> Option<Worker>,
) -> mpi::Result<()> {
    let missing: Vec<usize> = (0..found.len()).filter(|&at| found[at].is_none()).collect();
    let ranks: Vec<c_int> = missing.iter().map(|&at| at as c_int).collect();
    let mut ranks_within = vec![0; ranks.len()];
    // SAFETY: groups of the runtime, and arrays of this length.
    check(unsafe {
        let count = ranks.len() as c_int;
        let ranks_within = ranks_within.as_mut_ptr();
        real::PMPI_Group_translate_ranks(group, count, ranks.as_ptr(), within, ranks_within)
    })?;
    for (at, rank) in missing.into_iter().zip(ranks_within) {
        found[at] = usize::try_from(rank).ok().and_then(&number);
    }
    Ok(())
}
