//! `MPI_COMM_WORLD` and `MPI_COMM_SELF`, and the handles of all communicators.
#![allow(unsafe_code)]

use super::communicator::{Comm, SELF, SELF_UID, WORLD, WORLD_UID};
use super::hints;
use super::topology::Topology;
use crate::Runtime;
use crate::generated::{HandleKind, real};
use crate::handles::{self, DenotedObject, VirtComm, created_index, denoted_object, real_comm};
use crate::objects::{objects, objects_mut};
use std::ffi::CStr;
use understudy_mpi::real_types::RealComm;
use understudy_mpi::{self as mpi, check};
use understudy_numbers::{Worker, WorkerList};

/// Enters the two predefined communicators in the table.
///
/// `world` is the program's `MPI_COMM_WORLD`: a communicator of all `workers`. The call is
/// collective over them, since a second communicator is created for the runtime itself.
pub fn init(rt: &Runtime, world: RealComm, workers: u32, me: Worker) -> mpi::Result<()> {
    connect_world(rt, world, workers, me);
    replace_self(rt)?;
    let recipe = |uid, members: WorkerList| Comm {
        uid,
        collective_over_all: members.len() == workers as usize,
        members,
        remote: None,
        topology: Topology::None,
        name: None,
        errhandler: 0,
        attributes: Vec::new(),
        info: Vec::new(),
        derived_numbers: 0,
        collectives: 0.into(),
        variable_changes: 0,
        first_collectives: Vec::new(),
        session: 0,
        is_freed: false,
    };
    if objects(rt).comms.get(WORLD).is_none() {
        let comms = &mut objects_mut(rt).comms;
        comms.insert(recipe(WORLD_UID, Worker::all(workers).collect()));
        comms.insert(recipe(SELF_UID, vec![me].into()));
    }
    name_predefined(rt);
    make_bridge(rt, world)
}

pub(super) fn connect_world(rt: &Runtime, world: RealComm, workers: u32, me: Worker) {
    let mut state = rt.objects.comm.state.borrow_mut();
    let symbol = |name| handles::symbol_index(name).unwrap_or(usize::MAX);
    state.world_symbol = symbol("ompi_mpi_comm_world");
    state.self_symbol = symbol("ompi_mpi_comm_self");
    state.world = VirtComm(handles::predefined_handle(rt, "ompi_mpi_comm_world"));
    state.self_ = VirtComm(handles::predefined_handle(rt, "ompi_mpi_comm_self"));
    if state.real_self.0.is_null() {
        state.real_self = real_comm(rt, state.self_);
    }
    state.workers = workers;
    state.me = me;
    handles::set_predefined(rt, state.world_symbol, world.0);
    rt.objects.comm.discard_recent();
    world.return_errors();
    state.real_self.return_errors();
}

/// Sets a new duplicate as the real communicator of `MPI_COMM_SELF`.
///
/// Messages that the program has sent to itself and not received are lost with the old
/// communicator.
pub(super) fn replace_self(rt: &Runtime) -> mpi::Result<()> {
    let state = rt.objects.comm.state.borrow();
    let mut new = null_real(rt);
    // SAFETY: a communicator of this process alone.
    check(unsafe { real::PMPI_Comm_dup(state.real_self, &mut new) })?;
    new.return_errors();
    handles::set_predefined(rt, state.self_symbol, new.0);
    Ok(())
}

pub(super) fn name_predefined(rt: &Runtime) {
    let default: [(u32, VirtComm, &CStr); 2] = [
        (WORLD, world_handle(rt), c"MPI_COMM_WORLD"),
        (SELF, self_handle(rt), c"MPI_COMM_SELF"),
    ];
    for (index, handle, name) in default {
        let name_of_program = objects(rt)
            .comms
            .get(index)
            .and_then(|comm| comm.name.clone());
        hints::set_name(
            real_comm(rt, handle),
            name_of_program.as_deref().unwrap_or(name.to_bytes()),
        );
    }
}

/// Returns the runtime's own communicator of all workers, which the program does not see.
pub fn bridge(rt: &Runtime) -> Option<RealComm> {
    rt.objects.comm.state.borrow().bridge
}

pub(super) fn make_bridge(rt: &Runtime, world: RealComm) -> mpi::Result<()> {
    let mut bridge = null_real(rt);
    // SAFETY: a communicator of all workers, all of which make this call.
    check(unsafe { real::PMPI_Comm_dup(world, &mut bridge) })?;
    bridge.return_errors();
    rt.objects.comm.state.borrow_mut().bridge = Some(bridge);
    Ok(())
}

pub(super) fn null_real(rt: &Runtime) -> RealComm {
    real_comm(rt, null_handle(rt))
}

/// Returns the program's handle of `MPI_COMM_WORLD`.
pub fn world_handle(rt: &Runtime) -> VirtComm {
    rt.objects.comm.state.borrow().world
}

/// Returns the program's handle of `MPI_COMM_SELF`.
pub fn self_handle(rt: &Runtime) -> VirtComm {
    rt.objects.comm.state.borrow().self_
}

/// Returns the program's handle of `MPI_COMM_NULL`.
pub fn null_handle(rt: &Runtime) -> VirtComm {
    VirtComm(handles::predefined_handle(rt, "ompi_mpi_comm_null"))
}

/// Returns the program's handle of the communicator with this index.
pub fn handle(rt: &Runtime, index: u32) -> VirtComm {
    match index {
        WORLD => world_handle(rt),
        SELF => self_handle(rt),
        created => VirtComm(handles::virtual_handle(HandleKind::Comm, created)),
    }
}

pub(super) fn find_index(rt: &Runtime, comm: VirtComm) -> Option<u32> {
    match denoted_object(comm.0) {
        DenotedObject::Created(_) => {
            created_index(HandleKind::Comm, comm.0).filter(|&index| index > SELF)
        }
        DenotedObject::Predefined(symbol) => predefined_index(rt, symbol),
        DenotedObject::Nothing => None,
    }
}

fn predefined_index(rt: &Runtime, symbol: usize) -> Option<u32> {
    let state = rt.objects.comm.state.borrow();
    match symbol {
        _ if symbol == state.world_symbol => Some(WORLD),
        _ if symbol == state.self_symbol => Some(SELF),
        _ => None,
    }
}

/// Returns the rank of this process in the local group.
pub fn my_rank(rt: &Runtime, comm: &Comm) -> Option<usize> {
    let me = rt.objects.comm.state.borrow().me;
    comm.members.iter().position(|&member| member == me)
}

/// Discards the real communicators of a library that has been reset.
pub fn discard_reals(rt: &Runtime) {
    let comms = objects(rt);
    let created = comms
        .comms
        .iter()
        .map(|(index, _)| index)
        .filter(|&index| index > SELF);
    created.for_each(|index| handles::set_real(rt, HandleKind::Comm, index, std::ptr::null_mut()));
    let state = &mut *rt.objects.comm.state.borrow_mut();
    state.bridge = None;
    // A joining process has no real communicators yet.
    if !state.real_self.0.is_null() {
        handles::set_predefined(rt, state.self_symbol, state.real_self.0);
    }
}
