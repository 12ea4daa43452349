//! Replicas that this process reports to a recovery: inherited, received and damaged ones.

use super::joining::encoded_job_state;
use super::load::ReplicaDamage;
use crate::Runtime;
use crate::{copies, disk, world};
use std::cell::RefMut;
use understudy_catalogue::message;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::recovery_plan::{DamagedReplica, KeptReplicas, Plan};
use understudy_policy::replica_inventory::ReplicaInventory;

/// Borrows the inventory of the replicas that this process reports.
pub fn inventory(rt: &Runtime) -> RefMut<'_, ReplicaInventory> {
    rt.recovery.replicas.borrow_mut()
}

/// Adopts the replicas that a dead process has left to this joining process.
pub fn adopt_replicas(rt: &Runtime) {
    disk::discard_loaded(rt, &mut copies::replicas(rt).store);
    if let Some(got) = copies::adopt(rt) {
        log::debug!("inherited: {got:?}");
        inventory(rt).adopt(KeptReplicas {
            own: got.worker,
            has_own: got.has_own,
            layers: got.layers,
            epoch: got.committed,
            whole: got.whole,
            whole_layers: world::get(rt).redundancy.all_layers(got.worker),
            process: Some(got.process),
        });
    }
}

/// Commits or discards pending epochs, as all processes roll back to this epoch.
pub fn resolve_pending(rt: &Runtime, epoch: Epoch) {
    copies::resolve(rt, epoch);
    inventory(rt).resolve(epoch);
}

/// Makes the replicas of this process those of its worker, as the recovery has succeeded.
pub fn record_success(rt: &Runtime) {
    inventory(rt).clear();
    copies::record_replicas(rt, encoded_job_state(rt));
}

/// Refuses this worker's damaged replica, and the replica from which it was fetched.
///
/// Replicas of other workers that this process stores are refused, too, if they are damaged. No
/// process may use a refused replica. Returns the error with which the attempt ends; the next
/// attempt takes another replica.
pub fn refuse_own(rt: &Runtime, plan: &Plan, me: Worker, damaged: &ReplicaDamage) -> mpi::Error {
    let own = world::get(rt).process;
    let from = plan
        .source(me)
        .map_or(own, |buddy| plan.process_of[buddy.index()]);
    log::warn!("{}", message::replica_not_used(me, from, &damaged.0));
    let own_copies = [own, from].map(|at| DamagedReplica { worker: me, at });
    let stored = damaged_stored_replicas(rt, me);
    let stored = stored
        .into_iter()
        .map(|worker| DamagedReplica { worker, at: own });
    let mut inventory = inventory(rt);
    inventory.refuse(own_copies.into_iter().chain(stored));
    match world::get(rt).redundancy.is_parity() {
        // Stored parity has no checksums, so its damage shows only in the result of a
        // reconstruction.
        true => inventory.drop_kept(),
        false => inventory.drop_own(),
    }
    mpi::Error::OTHER
}

/// Refuses the replicas that this worker stores, before a rollback to the disk.
///
/// The replicas are of another epoch until they have been rebuilt.
pub fn refuse_stored(rt: &Runtime, me: Worker) {
    let world = world::get(rt);
    let at = world.process;
    let refused = |worker| DamagedReplica { worker, at };
    let copies = world.redundancy.owners_at(me).map(refused);
    inventory(rt).refuse(copies);
}

/// Returns the workers whose replicas, stored by this worker, are damaged.
///
/// Stored replicas may share pages with this worker's own replica, which is damaged.
fn damaged_stored_replicas(rt: &Runtime, me: Worker) -> Vec<Worker> {
    let (keep, redundancy) = (copies::replicas(rt), &world::get(rt).redundancy);
    let stored = redundancy.owners_at(me).zip(&keep.stored);
    // Parity is not searched: the checksums are those of the workers' pages, not of the parity.
    let stored = stored.filter(|(_, copy)| {
        !redundancy.is_parity() && keep.store.first_damaged(copy.image.runs()).is_some()
    });
    stored.map(|(worker, _)| worker).collect()
}
