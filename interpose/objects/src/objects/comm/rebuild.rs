//! Rebuild of all communicators on a new world.
#![allow(unsafe_code)]

use super::communicator::{SELF, WORLD};
use super::create::BRIDGE_TAG;
use super::predefined_comms::{
    connect_world, handle, make_bridge, name_predefined, null_real, replace_self,
};
use super::{Topology, first_collectives, hints};
use crate::Runtime;
use crate::generated::{HandleKind, real};
use crate::handles::{self, real_comm};
use crate::objects::tool::written;
use crate::objects::{Objects, group, objects};
use crate::{fault, gather};
use std::collections::HashMap;
use std::ffi::c_int;
use understudy_catalogue::message;
use understudy_mpi::real_types::{RealComm, UNDEFINED};
use understudy_mpi::{self as mpi, check};
use understudy_numbers::{Epoch, Worker};
use understudy_policy::communicator_plan::{
    MemberPosition, PlannedCommunicator, batches, chooser, uids_of,
};

/// Creates the real communicators and groups of all workers from their recipes.
///
/// Collective over `new_world`, in which each worker has the rank that the recipes use.
///
/// For each communicator, the worker that chose the `uid` (see [`super::Comm::uid`]) contributes
/// the recipe to a list that all workers gather. All workers compute equal batches from the list:
/// the communicators of a batch have no common worker, so one `MPI_Comm_split` of the world creates
/// all of them. The real handles of created communicators are set when all communicators exist,
/// those of `MPI_COMM_WORLD` and `MPI_COMM_SELF` at the start.
///
/// # Errors
/// Fails if a real procedure fails or the recipes differ. If a process has failed, other workers
/// may have advanced further or completed the rebuild; all workers must repeat the whole rebuild on
/// another world.
pub fn rebuild(rt: &Runtime, new_world: RealComm, epoch: Epoch) -> mpi::Result<()> {
    let (mut me, mut workers) = (0, 0);
    // SAFETY: queries of a valid communicator, with variables for the results.
    unsafe {
        check(real::PMPI_Comm_rank(new_world, &mut me))?;
        check(real::PMPI_Comm_size(new_world, &mut workers))?;
    }
    let me = Worker(me as u32);
    connect_world(rt, new_world, workers as u32, me);
    replace_self(rt)?;
    make_bridge(rt, new_world)?;
    let bridge = rt
        .objects
        .comm
        .state
        .borrow()
        .bridge
        .ok_or(mpi::Error::INTERN)?;
    let chosen = gather::gather_from_all(bridge, &chosen_by(rt, me))?;
    let plan = batches(chosen.into_iter().flatten().collect());
    let own = own_indices(rt);
    require_all(bridge, uids_of(me, &plan) == sorted(own.keys().copied()))?;

    written::write_before_communicators(rt);
    let mut made = RebuiltComms::default();
    for batch in &plan {
        make_batch(rt, bridge, me, batch, &own, &mut made)?;
        fault::point("rebuild.half", epoch);
    }
    let world_collectives = objects(rt)
        .comms
        .get(WORLD)
        .map(|world| world.first_collectives.clone());
    first_collectives::repeat(new_world, &world_collectives.unwrap_or_default())?;
    finish(rt, made);
    group::rebuild(rt);
    Ok(())
}

/// Communicators that a rebuild has created so far.
#[derive(Default)]
struct RebuiltComms {
    /// New communicators, with their indices in the table.
    results: Vec<(u32, RealComm)>,
    /// Communicators from which `results` were created, and which are freed at the end.
    intermediate: Vec<RealComm>,
}

fn finish(rt: &Runtime, made: RebuiltComms) {
    for &(index, comm) in &made.results {
        handles::set_real(rt, HandleKind::Comm, index, comm.0);
        if let Some(name) = objects(rt)
            .comms
            .get(index)
            .and_then(|recipe| recipe.name.as_deref())
        {
            hints::set_name(comm, name);
        }
    }
    name_predefined(rt);
    for index in [WORLD, SELF] {
        let hints = objects(rt).comms.get(index).map(|comm| comm.info.clone());
        // The library may ignore hints (MPI 4.1, 7.4.4).
        hints::apply(
            rt,
            real_comm(rt, handle(rt, index)),
            &hints.unwrap_or_default(),
        );
    }
    for mut intermediate in made.intermediate {
        // SAFETY: the rebuild has created this communicator, which no entry of the table has.
        unsafe { real::PMPI_Comm_free(&mut intermediate) };
    }
}

fn created(all: &Objects) -> impl Iterator<Item = (u32, &super::communicator::Comm)> {
    all.comms.iter().filter(|&(index, _)| index > SELF)
}

/// Returns the communicators whose `uid` this worker has chosen.
fn chosen_by(rt: &Runtime, me: Worker) -> Vec<PlannedCommunicator> {
    created(&objects(rt))
        .filter(|(_, comm)| chooser(comm.uid) == me)
        .map(|(_, comm)| PlannedCommunicator {
            uid: comm.uid,
            members: comm.members.clone(),
            remote: comm.remote.clone(),
            first_collectives: comm.first_collectives.clone(),
        })
        .collect()
}

/// Returns the table indices of this worker's communicators, by `uid`.
fn own_indices(rt: &Runtime) -> HashMap<u64, u32> {
    created(&objects(rt))
        .map(|(index, comm)| (comm.uid, index))
        .collect()
}

fn sorted(uids: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut uids: Vec<u64> = uids.collect();
    uids.sort_unstable();
    uids
}

/// Fails in all workers if the table of any worker differs from the plan.
///
/// Without this check the rebuild would block forever.
fn require_all(world: RealComm, is_as_planned: bool) -> mpi::Result<()> {
    if !is_as_planned {
        log::error!("{}", message::COMMUNICATORS_DIFFER);
    }
    match gather::all_true(world, is_as_planned)? {
        true => Ok(()),
        false => Err(mpi::Error::INTERN),
    }
}

/// Creates the communicators of one batch; `own` are this worker's table indices.
fn make_batch(
    rt: &Runtime,
    world: RealComm,
    me: Worker,
    batch: &[PlannedCommunicator],
    own: &HashMap<u64, u32>,
    made: &mut RebuiltComms,
) -> mpi::Result<()> {
    let mine = batch
        .iter()
        .enumerate()
        .find_map(|(at, planned)| Some((at, planned, planned.position_of(me)?)));
    // Each group has a color: two colors for each communicator.
    let (color, key) = match mine {
        Some((at, _, position)) => (
            2 * at as c_int + c_int::from(position.is_second_group),
            position.rank as c_int,
        ),
        None => (UNDEFINED, 0),
    };
    let mut comm = null_real(rt);
    // SAFETY: a communicator of the runtime; all workers make this call for each batch.
    check(unsafe { real::PMPI_Comm_split(world, color, key, &mut comm) })?;
    let Some((_, planned, position)) = mine else {
        return Ok(());
    };
    comm.return_errors();
    let index = *own.get(&planned.uid).ok_or(mpi::Error::INTERN)?;
    let comm = make_comm(rt, (world, comm), planned, position, index, made)?;
    made.results.push((index, comm));
    Ok(())
}

/// Recreates a communicator from a communicator of its local group; called by members only.
fn make_comm(
    rt: &Runtime,
    (world, mut comm): (RealComm, RealComm),
    planned: &PlannedCommunicator,
    position: MemberPosition<'_>,
    index: u32,
    made: &mut RebuiltComms,
) -> mpi::Result<RealComm> {
    if let Some(remote) = position.remote {
        let leader = remote.first().copied().ok_or(mpi::Error::INTERN)?;
        let mut inter = null_real(rt);
        // SAFETY: communicators of the runtime; both groups make this call.
        check(unsafe {
            real::PMPI_Intercomm_create(comm, 0, world, leader.0 as c_int, BRIDGE_TAG, &mut inter)
        })?;
        made.intermediate.push(comm);
        inter.return_errors();
        comm = inter;
    }
    let all = objects(rt);
    let recipe = all.comms.get(index).ok_or(mpi::Error::INTERN)?;
    if recipe.topology != Topology::None {
        let mut with_topology = null_real(rt);
        let info = hints::null_info(rt);
        check(recipe.topology.apply(info, comm, &mut with_topology))?;
        made.intermediate.push(comm);
        with_topology.return_errors();
        comm = with_topology;
    }
    check(hints::apply(rt, comm, &recipe.info))?;
    first_collectives::repeat(comm, &planned.first_collectives)?;
    Ok(comm)
}
