//! Entries of communicators in the table.
#![allow(unsafe_code)]

use super::communicator::Comm;
use super::recent_comm::index;
use super::topology::Topology;
use crate::Runtime;
use crate::errors::ERR_UNSUPPORTED_OPERATION;
use crate::generated::real;
use crate::handles::{VirtComm, real_comm};
use crate::objects::attribute::value::Attributes;
use crate::objects::{objects, objects_mut};
use std::cell::{Ref, RefMut};
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_numbers::Worker;

/// Returns the recipe of a communicator.
#[inline]
pub fn get(rt: &Runtime, comm: VirtComm) -> Option<Ref<'_, Comm>> {
    let index = index(rt, comm)?;
    Ref::filter_map(objects(rt), |all| all.comms.get(index)).ok()
}

/// Borrows the recipe of a communicator to change it.
pub fn get_mut(rt: &Runtime, comm: VirtComm) -> Option<RefMut<'_, Comm>> {
    let index = index(rt, comm)?;
    RefMut::filter_map(objects_mut(rt), |all| all.comms.get_mut(index)).ok()
}

/// Returns the members of the local group, in the order of their ranks.
///
/// Members are workers, or [spawned](super::spawned) processes.
pub fn members(rt: &Runtime, comm: VirtComm) -> Option<Vec<Worker>> {
    Some(get(rt, comm)?.members.to_vec())
}

/// Returns the members of the remote group, or `None` for an intracommunicator.
pub fn remote_members(rt: &Runtime, comm: VirtComm) -> Option<Vec<Worker>> {
    get(rt, comm)?.remote.as_deref().map(<[Worker]>::to_vec)
}

/// Returns the number of members of both groups, or zero for an invalid communicator.
pub fn size_of_both(rt: &Runtime, comm: VirtComm) -> usize {
    get(rt, comm).map_or(0, |comm| {
        comm.members.len() + comm.remote.as_deref().map_or(0, <[Worker]>::len)
    })
}

/// True if spawned processes are in the communicator.
pub fn has_spawned(rt: &Runtime, comm: VirtComm) -> bool {
    get(rt, comm).is_some_and(|comm| comm.has_spawned())
}

/// Returns the program's handle of the session that a communicator comes from.
///
/// Zero for the World Model.
pub fn session(rt: &Runtime, comm: VirtComm) -> u64 {
    get(rt, comm).map_or(0, |comm| comm.session)
}

/// True if spawned processes are in any communicator.
pub fn has_any_spawned(rt: &Runtime) -> bool {
    objects(rt).comms.iter().any(|(_, comm)| comm.has_spawned())
}

/// Refuses to open a file on a communicator with spawned processes.
///
/// Only workers can open files.
///
/// # Errors
/// Fails with `MPI_ERR_UNSUPPORTED_OPERATION`, and a log line, if spawned processes are members.
pub fn require_workers_only(rt: &Runtime, comm: VirtComm) -> Result<(), c_int> {
    if !has_spawned(rt, comm) {
        return Ok(());
    }
    log::error!("{}", message::FILES_OF_SPAWNED_PROCESSES);
    Err(ERR_UNSUPPORTED_OPERATION)
}

/// Returns the program's handle of the error handler.
///
/// Zero if none was set or `comm` is invalid.
pub fn errhandler(rt: &Runtime, comm: VirtComm) -> u64 {
    get(rt, comm).map_or(0, |comm| comm.errhandler)
}

/// Sets the error handler.
pub fn set_errhandler(rt: &Runtime, comm: VirtComm, errhandler: u64) {
    if let Some(mut comm) = get_mut(rt, comm) {
        comm.errhandler = errhandler;
    }
}

pub fn attributes(rt: &Runtime, comm: VirtComm) -> Option<RefMut<'_, Attributes>> {
    get_mut(rt, comm).map(|comm| RefMut::map(comm, |comm| &mut comm.attributes))
}

/// Returns the rank of a worker in an intracommunicator.
pub fn rank_of(rt: &Runtime, comm: VirtComm, worker: Worker) -> Option<i32> {
    let comm = get(rt, comm)?;
    // Most intracommunicators contain all workers in their order.
    let is_in_order = comm.members.get(worker.index()) == Some(&worker);
    let search = || comm.members.iter().position(|&member| member == worker);
    let rank = if is_in_order {
        Some(worker.index())
    } else {
        search()
    };
    rank.map(|rank| rank as i32)
}

/// Returns in- and outdegree of this process; zero without a topology.
pub fn degrees(rt: &Runtime, comm: VirtComm) -> (c_int, c_int) {
    let recipe = get(rt, comm);
    match recipe.as_ref().map(|recipe| &recipe.topology) {
        Some(Topology::Cart { dims, .. }) => (2 * dims.len() as c_int, 2 * dims.len() as c_int),
        Some(Topology::DistGraph {
            sources,
            destinations,
            ..
        }) => (sources.len() as c_int, destinations.len() as c_int),
        Some(Topology::Graph { .. }) => {
            let (mut rank, mut degree) = (0, 0);
            // SAFETY: queries that write only to variables of this frame.
            unsafe {
                real::PMPI_Comm_rank(real_comm(rt, comm), &mut rank);
                real::PMPI_Graph_neighbors_count(real_comm(rt, comm), rank, &mut degree);
            }
            (degree, degree)
        }
        Some(Topology::None) | None => (0, 0),
    }
}
