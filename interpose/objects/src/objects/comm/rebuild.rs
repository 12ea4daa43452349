//! Rebuild of all communicators on a new world.
#![allow(unsafe_code)]

use super::communicator::{SELF, WORLD};
use super::create::BRIDGE_TAG;
use super::predefined_comms::{
    connect_world, handle, make_bridge, name_predefined, null_real, renew_self,
};
use super::{Topology, firsts, hints};
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
use understudy_policy::communicator_plan::{Part, Planned, batches, chooser, uids_of};

/// Creates the real communicators and groups of all workers from their recipes.
///
/// Collective over `new_world`, in which each worker has the rank that the recipes use.
///
/// The worker that chose a communicator's `uid` contributes its recipe to a list (see
/// [`super::Comm::uid`]). Communicators without a common worker are created at the same time. The
/// table and the handles are changed once all communicators exist in all workers.
///
/// # Errors
/// The first error of a real procedure. If a process has failed, other workers may have advanced
/// further or completed the rebuild; all workers must repeat all of it on another world.
pub fn rebuild(rt: &Runtime, new_world: RealComm, epoch: Epoch) -> mpi::Result<()> {
    let (mut me, mut workers) = (0, 0);
    // SAFETY: a communicator of the runtime.
    unsafe {
        check(real::PMPI_Comm_rank(new_world, &mut me))?;
        check(real::PMPI_Comm_size(new_world, &mut workers))?;
    }
    let me = Worker(me as u32);
    connect_world(rt, new_world, workers as u32, me);
    renew_self(rt)?;
    make_bridge(rt, new_world)?;
    let bridge = rt
        .objects
        .comm
        .state
        .borrow()
        .bridge
        .ok_or(mpi::Error::INTERN)?;
    let chosen = gather::everybodys(bridge, &chosen_by(rt, me))?;
    let plan = batches(chosen.into_iter().flatten().collect());
    let own = own_indices(rt);
    agree_on(bridge, uids_of(me, &plan) == sorted(own.keys().copied()))?;

    written::write_before_communicators(rt);
    let mut made = Made::default();
    for batch in &plan {
        make_batch(rt, bridge, me, batch, &own, &mut made)?;
        fault::point("rebuild.half", epoch);
    }
    let of_world = objects(rt)
        .comms
        .get(WORLD)
        .map(|world| world.firsts.clone());
    firsts::make_again(new_world, &of_world.unwrap_or_default())?;
    finish(rt, made);
    group::rebuild(rt);
    Ok(())
}

/// Communicators that a rebuild has created so far.
#[derive(Default)]
struct Made {
    /// New communicators, with their indices in the table.
    results: Vec<(u32, RealComm)>,
    parts: Vec<RealComm>,
}

fn finish(rt: &Runtime, made: Made) {
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
    for mut part in made.parts {
        // SAFETY: a communicator of the runtime.
        unsafe { real::PMPI_Comm_free(&mut part) };
    }
}

fn created(all: &Objects) -> impl Iterator<Item = (u32, &super::communicator::Comm)> {
    all.comms.iter().filter(|&(index, _)| index > SELF)
}

/// Returns the communicators whose `uid` this worker has chosen.
fn chosen_by(rt: &Runtime, me: Worker) -> Vec<Planned> {
    created(&objects(rt))
        .filter(|(_, comm)| chooser(comm.uid) == me)
        .map(|(_, comm)| Planned {
            uid: comm.uid,
            members: comm.members.clone(),
            remote: comm.remote.clone(),
            firsts: comm.firsts.clone(),
        })
        .collect()
}

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

/// Fails in all workers if the tables of any worker differ from the plan.
///
/// Otherwise the rebuild would block forever.
fn agree_on(world: RealComm, fits: bool) -> mpi::Result<()> {
    if !fits {
        log::error!("{}", message::COMMUNICATORS_DIFFER);
    }
    match gather::all_say(world, fits)? {
        true => Ok(()),
        false => Err(mpi::Error::INTERN),
    }
}

fn make_batch(
    rt: &Runtime,
    world: RealComm,
    me: Worker,
    batch: &[Planned],
    own: &HashMap<u64, u32>,
    made: &mut Made,
) -> mpi::Result<()> {
    let mine = batch
        .iter()
        .enumerate()
        .find_map(|(at, planned)| Some((at, planned, planned.part_of(me)?)));
    let (color, key) = match mine {
        Some((at, _, part)) => (
            2 * at as c_int + c_int::from(part.second),
            part.rank as c_int,
        ),
        None => (UNDEFINED, 0),
    };
    let mut comm = null_real(rt);
    // SAFETY: a communicator of the runtime; all workers make this call for each batch.
    check(unsafe { real::PMPI_Comm_split(world, color, key, &mut comm) })?;
    let Some((_, planned, part)) = mine else {
        return Ok(());
    };
    comm.return_errors();
    let index = *own.get(&planned.uid).ok_or(mpi::Error::INTERN)?;
    let comm = make_one(rt, (world, comm), planned, part, index, made)?;
    made.results.push((index, comm));
    Ok(())
}

/// Recreates a communicator from a communicator of its local group. Only its members call this.
fn make_one(
    rt: &Runtime,
    (world, mut comm): (RealComm, RealComm),
    planned: &Planned,
    part: Part<'_>,
    index: u32,
    made: &mut Made,
) -> mpi::Result<RealComm> {
    if let Some(remote) = part.remote {
        let leader = remote.first().copied().ok_or(mpi::Error::INTERN)?;
        let mut inter = null_real(rt);
        // SAFETY: communicators of the runtime; both groups make this call.
        check(unsafe {
            real::PMPI_Intercomm_create(comm, 0, world, leader.0 as c_int, BRIDGE_TAG, &mut inter)
        })?;
        made.parts.push(comm);
        inter.return_errors();
        comm = inter;
    }
    let all = objects(rt);
    let recipe = all.comms.get(index).ok_or(mpi::Error::INTERN)?;
    if recipe.topology != Topology::None {
        let mut with_topology = null_real(rt);
        let info = hints::null_info(rt);
        check(recipe.topology.apply(info, comm, &mut with_topology))?;
        made.parts.push(comm);
        with_topology.return_errors();
        comm = with_topology;
    }
    check(hints::apply(rt, comm, &recipe.info))?;
    firsts::make_again(comm, &planned.firsts)?;
    Ok(comm)
}
