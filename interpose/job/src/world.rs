//! The workers: who plays which part, and the runtime's own communicators.

use crate::cell::{Field, runtime};
pub use crate::role::{is_initialised, is_playing, is_protected};
use crate::{role, user};
use std::sync::Arc;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::{ProcessNumber, Worker};
use understudy_policy::redundancy::Redundancy;

runtime! {
    pub struct Runtime: user::Runtime {
        /// `None` before the end of `MPI_Init`.
        world: Field<Option<Arc<World>>> = Field::new(None),
    }
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Worker(Worker),
    /// Is to get the part of a dead process.
    Newcomer,
}

/// The runtime's view of the job.
#[derive(Clone)]
pub struct World {
    /// What the program sees as MPI_COMM_WORLD.
    pub workers: RealComm,
    /// All workers, for cuts, shipping and commits.
    pub private: RealComm,
    /// Communicator of this process alone.
    pub own: RealComm,
    /// What this process does.
    pub part: Part,
    /// Its number, by which the job knows it: its rank in the launcher's world, if that has started it.
    pub process: ProcessNumber,
    pub worker_count: u32,
    /// Who holds whose copies.
    pub redundancy: Redundancy,
    /// The node of each process that has been in a generation, by its number.
    pub nodes: Vec<u64>,
    /// Whether failures are recovered from.
    pub protected: bool,
    /// MPI_Finalize has passed its last point of recovery.
    pub finalized: bool,
    /// How many recoveries there were.
    pub recoveries: u32,
    /// The number of the process that plays each worker.
    pub players: Vec<ProcessNumber>,
}

impl World {
    /// The node of a worker's process.
    pub fn node_of(&self, worker: Worker) -> u64 {
        self.nodes[self.players[worker.index()].index()]
    }
}

fn set(rt: &Runtime, world: World) {
    let protected = world.protected && !world.finalized;
    let playing = matches!(world.part, Part::Worker(_)) && !world.finalized;
    rt.world.set(Some(Arc::new(world)));
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
    look(rt.world.borrow().as_ref().expect("MPI is initialised"))
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

/// The communicators of the workers: the program's, and the runtime's own. A collective over all processes of a generation.
pub fn workers_of(all: RealComm, worker: Worker) -> mpi::Result<[RealComm; 2]> {
    let workers = all.ordered(worker.0)?;
    Ok([workers, workers.duplicate()?])
}
