//! Buddies of this worker, and workers whose buddy it is.

use crate::world;
use understudy_job::Runtime;
use understudy_numbers::Worker;

/// Returns, by layer, this worker's buddy and the worker whose buddy this worker is.
pub fn buddies_by_layer(rt: &Runtime) -> impl Iterator<Item = (Worker, Worker)> {
    let (world, worker) = (world::get(rt), world::worker(rt));
    let buddies = world
        .redundancy
        .buddies_of(worker)
        .zip(world.redundancy.owners_at(worker));
    buddies.collect::<Vec<_>>().into_iter()
}
