//! Workers that store replicas of each other.

use crate::world;
use understudy_job::Runtime;
use understudy_numbers::Worker;

/// Returns this worker's buddy and the worker whose buddy it is, by layer.
pub fn buddies(rt: &Runtime) -> impl Iterator<Item = (Worker, Worker)> {
    let (world, worker) = (world::get(rt), world::worker(rt));
    let buddies = world
        .redundancy
        .holders_of(worker)
        .zip(world.redundancy.partners_of(worker));
    buddies.collect::<Vec<_>>().into_iter()
}
