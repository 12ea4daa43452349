//! Workers of the job, their processes, and the runtime's communicators.

mod world_view;

pub use crate::role::{is_initialised, is_protected, is_worker};
use crate::{Runtime, role};
use std::sync::Arc;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;
pub(crate) use world_view::WorldView;
pub use world_view::{Role, World};

fn set(rt: &Runtime, world: World) {
    let protected = world.protected && !world.finalized;
    let is_active_worker = matches!(world.role, Role::Worker(_)) && !world.finalized;
    rt.world.view.set(Some(Arc::new(world)));
    role::publish(protected, is_active_worker);
}

/// Sets the view of the job at the end of `MPI_Init`.
pub fn enter(rt: &Runtime, world: World) {
    set(rt, world);
}

/// Returns the present view of the job; later changes do not affect the returned value.
///
/// Must be called after `MPI_Init`.
pub fn get(rt: &Runtime) -> Arc<World> {
    with(rt, Arc::clone)
}

fn with<T>(rt: &Runtime, read: impl FnOnce(&Arc<World>) -> T) -> T {
    read(rt.world.view.borrow().as_ref().expect("MPI is initialised"))
}

/// Changes the view of the job.
pub fn update(rt: &Runtime, change: impl FnOnce(&mut World)) {
    let mut world = World::clone(&get(rt));
    change(&mut world);
    set(rt, world);
}

/// Returns the communicator for cuts, transfers of replicas, and commits.
pub fn private(rt: &Runtime) -> RealComm {
    with(rt, |world| world.private)
}

/// Returns the communicator of this process alone.
pub fn own_comm(rt: &Runtime) -> RealComm {
    with(rt, |world| world.own)
}

/// True if all processes of all MPI instances so far are on one node.
pub fn is_on_one_node(rt: &Runtime) -> bool {
    with(rt, |world| {
        world.nodes.windows(2).all(|two| two[0] == two[1])
    })
}

/// Returns the worker of this process, which must not be a joining process.
pub fn worker(rt: &Runtime) -> Worker {
    match with(rt, |world| world.role) {
        Role::Worker(worker) => worker,
        Role::Joining => unreachable!("a joining process is no worker"),
    }
}

/// True if this process is the first worker, which acts for all workers.
pub fn is_first_worker(rt: &Runtime) -> bool {
    with(rt, |world| world.role == Role::Worker(Worker(0)))
}

/// Creates the workers' communicators: the program's, and the runtime's.
///
/// Collective over all processes of an MPI instance.
pub fn workers_of(all: RealComm, worker: Worker) -> mpi::Result<[RealComm; 2]> {
    let workers = all.ordered(worker.0)?;
    Ok([workers, workers.duplicate()?])
}
