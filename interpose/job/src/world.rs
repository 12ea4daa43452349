//! The workers: who plays which part, and the runtime's own communicators.

mod world_view;

pub use crate::role::{is_initialised, is_playing, is_protected};
use crate::{Runtime, role};
use std::sync::Arc;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;
pub(crate) use world_view::WorldView;
pub use world_view::{Part, World};

fn set(rt: &Runtime, world: World) {
    let protected = world.protected && !world.finalized;
    let playing = matches!(world.part, Part::Worker(_)) && !world.finalized;
    rt.world.view.set(Some(Arc::new(world)));
    role::publish(protected, playing);
}

/// From here on this process knows its job.
pub fn enter(rt: &Runtime, world: World) {
    set(rt, world);
}

/// The job as it is now, after MPI_Init. It does not follow later changes.
pub fn get(rt: &Runtime) -> Arc<World> {
    with(rt, Arc::clone)
}

fn with<T>(rt: &Runtime, look: impl FnOnce(&Arc<World>) -> T) -> T {
    look(rt.world.view.borrow().as_ref().expect("MPI is initialised"))
}

/// Changes the view of the job.
pub fn update(rt: &Runtime, change: impl FnOnce(&mut World)) {
    let mut world = World::clone(&get(rt));
    change(&mut world);
    set(rt, world);
}

/// The communicator for cuts, shipping and commits.
pub fn private(rt: &Runtime) -> RealComm {
    with(rt, |world| world.private)
}

/// The communicator of this process alone.
pub fn own_comm(rt: &Runtime) -> RealComm {
    with(rt, |world| world.own)
}

/// Whether all processes that have been in a generation are on one node.
pub fn is_on_one_node(rt: &Runtime) -> bool {
    with(rt, |world| {
        world.nodes.windows(2).all(|two| two[0] == two[1])
    })
}

/// The worker that this process plays, which is no newcomer.
pub fn worker(rt: &Runtime) -> Worker {
    match with(rt, |world| world.part) {
        Part::Worker(worker) => worker,
        Part::Newcomer => unreachable!("a newcomer has no part"),
    }
}

/// Whether this process plays the first worker, which speaks for all.
pub fn is_first_worker(rt: &Runtime) -> bool {
    with(rt, |world| world.part == Part::Worker(Worker(0)))
}

/// The communicators of the workers: the program's, and the runtime's own. A collective over all
/// processes of a generation.
pub fn workers_of(all: RealComm, worker: Worker) -> mpi::Result<[RealComm; 2]> {
    let workers = all.ordered(worker.0)?;
    Ok([workers, workers.duplicate()?])
}
