//! Replicas that this process reports to a recovery: received ones and damaged ones.

use super::joining::encoded_job_state;
use super::load::ReplicaDamage;
use crate::Runtime;
use crate::{copies, disk, world};
use understudy_catalogue::message;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::recovery_plan::{DamagedReplica, KeptReplicas, Plan};

/// Returns the replicas of this joining process.
///
/// The origin of the replicas is an attempt that failed, or a dead process.
pub fn available(rt: &Runtime) -> Option<KeptReplicas> {
    rt.recovery.replicas.borrow().available
}

/// Adopts the replicas that a dead process has left to this joining process.
pub fn adopt_replicas(rt: &Runtime) {
    disk::discard_loaded(rt, &mut copies::replicas(rt).store);
    if let Some(got) = copies::adopt(rt) {
        log::debug!("inherited: {got:?}");
        rt.recovery.replicas.borrow_mut().available = Some(KeptReplicas {
            own: got.worker,
            has_own: got.has_own,
            layers: (1 << world::get(rt).redundancy.layers(got.worker)) - 1,
            epoch: got.committed,
            whole: got.whole,
            process: Some(got.process),
        });
    }
}

/// Commits or discards pending epochs, as all processes roll back to this epoch.
pub fn resolve_pending(rt: &Runtime, epoch: Epoch) {
    copies::resolve(rt, epoch);
    if let Some(held) = &mut rt.recovery.replicas.borrow_mut().available
        && held.reaches(epoch)
    {
        (held.epoch, held.whole) = (epoch, None);
    }
}

/// Makes the replicas of this process those of its worker, as the recovery has succeeded.
pub fn record_success(rt: &Runtime) {
    rt.recovery.replicas.borrow_mut().available = None;
    copies::record_replicas(rt, encoded_job_state(rt));
}

/// Returns the damaged replicas that this process has found in this recovery.
pub fn refused(rt: &Runtime) -> Vec<DamagedReplica> {
    rt.recovery.replicas.borrow().refused.clone()
}

/// Clears the damaged replicas, which the successful recovery has rebuilt.
pub fn clear_refusals(rt: &Runtime) {
    rt.recovery.replicas.borrow_mut().refused.clear();
}

/// Refuses this worker's damaged replica, and the one that it was fetched from.
///
/// No process may use either of them any longer. Returns the error with which the attempt ends. The
/// next attempt takes another replica.
pub fn refuse_own(rt: &Runtime, plan: &Plan, me: Worker, damaged: &ReplicaDamage) -> mpi::Error {
    let own = world::get(rt).process;
    let from = plan
        .source(me)
        .map_or(own, |buddy| plan.process_of[buddy.index()]);
    log::warn!("{}", message::replica_not_used(me, from, &damaged.0));
    let mut copies = vec![
        DamagedReplica {
            worker: me,
            at: own,
        },
        DamagedReplica {
            worker: me,
            at: from,
        },
    ];
    copies.extend(
        damaged_stored_replicas(rt, me)
            .into_iter()
            .map(|worker| DamagedReplica { worker, at: own }),
    );
    let mut found = rt.recovery.replicas.borrow_mut();
    for copy in copies {
        if !found.refused.contains(&copy) {
            found.refused.push(copy);
        }
    }
    found.available = None;
    mpi::Error::OTHER
}

/// Refuses the replicas that this worker stores, before a rollback to the disk.
///
/// The replicas are of another epoch until they have been rebuilt.
pub fn refuse_stored(rt: &Runtime, me: Worker) {
    let world = world::get(rt);
    let at = world.process;
    let of = |worker| DamagedReplica { worker, at };
    let copies = world.redundancy.owners_at(me).map(of);
    rt.recovery.replicas.borrow_mut().refused.extend(copies);
}

/// Returns the workers whose replicas, stored by this worker, are damaged.
///
/// This worker's own replica may share damaged pages with them.
fn damaged_stored_replicas(rt: &Runtime, me: Worker) -> Vec<Worker> {
    let (keep, redundancy) = (copies::replicas(rt), &world::get(rt).redundancy);
    let stored = redundancy.owners_at(me).zip(&keep.stored);
    // The checksums of parity are in its description.
    let stored = stored.filter(|(_, copy)| {
        !redundancy.is_parity() && keep.store.first_damaged(copy.image.runs()).is_some()
    });
    stored.map(|(worker, _)| worker).collect()
}

/// Removes the refusal of this worker's own replica, which was replaced.
pub fn accept_own(rt: &Runtime, me: Worker) {
    let at = world::get(rt).process;
    rt.recovery
        .replicas
        .borrow_mut()
        .refused
        .retain(|copy| *copy != DamagedReplica { worker: me, at });
}

/// Drops the record of replicas in this process.
pub fn drop_available(rt: &Runtime) {
    rt.recovery.replicas.borrow_mut().available = None;
}

/// Marks this worker's own replica as missing, since another one replaces it.
///
/// Stored replicas of this epoch stay valid.
pub fn mark_own_missing(rt: &Runtime, plan: &Plan, me: Worker) {
    let held = &mut rt.recovery.replicas.borrow_mut().available;
    *held = held.filter(|held| held.own == me && held.epoch == plan.epoch);
    if let Some(held) = held {
        held.has_own = false;
    }
}

/// Records that this process has got its worker's own replica.
pub fn record_own(rt: &Runtime, plan: &Plan, me: Worker) {
    accept_own(rt, me);
    let held = &mut rt.recovery.replicas.borrow_mut().available;
    *held = Some(KeptReplicas {
        own: me,
        has_own: true,
        layers: held.map_or(0, |held| held.layers),
        epoch: plan.epoch,
        whole: None,
        process: None,
    });
}

/// Records that this joining process has got replicas of other workers, in these layers.
pub fn record_layers(rt: &Runtime, layers: u64) {
    if let Some(held) = &mut rt.recovery.replicas.borrow_mut().available {
        held.layers |= layers;
    }
}
