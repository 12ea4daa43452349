//! Replicas that this process reports to a recovery: received ones and damaged ones.

use super::load::Damaged;
use super::newcomers::welcome;
use crate::Runtime;
use crate::{copies, disk, world};
use understudy_catalogue::message;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::recovery_plan::{Held, Plan, Refused};

/// Returns the replicas of this joining process.
///
/// Their origin is an attempt that failed, or a dead process.
pub fn held(rt: &Runtime) -> Option<Held> {
    rt.recovery.heritage.borrow().held
}

/// Adopts the replicas that a dead process has left to this joining process.
pub fn inherit(rt: &Runtime) {
    disk::forget_loaded(rt, &mut copies::keep(rt).store);
    if let Some(got) = copies::adopt(rt) {
        log::debug!("inherited: {got:?}");
        rt.recovery.heritage.borrow_mut().held = Some(Held {
            own: got.worker,
            has_own: got.has_own,
            layers: (1 << world::get(rt).redundancy.layers(got.worker)) - 1,
            epoch: got.committed,
            whole: got.whole,
            player: Some(got.player),
        });
    }
}

/// Commits or discards pending epochs, as all processes roll back to this epoch.
pub fn resolve(rt: &Runtime, epoch: Epoch) {
    copies::resolve(rt, epoch);
    if let Some(held) = &mut rt.recovery.heritage.borrow_mut().held
        && held.reaches(epoch)
    {
        (held.epoch, held.whole) = (epoch, None);
    }
}

/// Makes the replicas of this process those of its worker, as the recovery has succeeded.
pub fn settle(rt: &Runtime) {
    rt.recovery.heritage.borrow_mut().held = None;
    copies::renew_legacy(rt, welcome(rt));
}

/// Returns the damaged replicas that this process has found in this recovery.
pub fn refused(rt: &Runtime) -> Vec<Refused> {
    rt.recovery.heritage.borrow().refused.clone()
}

/// Clears the damaged replicas, which the successful recovery has rebuilt.
pub fn forget_refusals(rt: &Runtime) {
    rt.recovery.heritage.borrow_mut().refused.clear();
}

/// Refuses this worker's damaged replica, and the one that it was fetched from.
///
/// No process may use either of them any longer. Returns the error with which the attempt ends. The
/// next attempt takes another replica.
pub fn refuse_own(rt: &Runtime, plan: &Plan, me: Worker, damaged: &Damaged) -> mpi::Error {
    let own = world::get(rt).process;
    let from = plan
        .source(me)
        .map_or(own, |holder| plan.players[holder.index()]);
    log::warn!("{}", message::replica_not_used(me, from, &damaged.0));
    let mut copies = vec![
        Refused {
            worker: me,
            at: own,
        },
        Refused {
            worker: me,
            at: from,
        },
    ];
    copies.extend(
        damaged_at(rt, me)
            .into_iter()
            .map(|worker| Refused { worker, at: own }),
    );
    let mut found = rt.recovery.heritage.borrow_mut();
    for copy in copies {
        if !found.refused.contains(&copy) {
            found.refused.push(copy);
        }
    }
    found.held = None;
    mpi::Error::OTHER
}

/// Refuses the replicas that this worker stores, before a rollback to the disk.
///
/// They are of another epoch until they have been rebuilt.
pub fn refuse_partners(rt: &Runtime, me: Worker) {
    let world = world::get(rt);
    let at = world.process;
    let of = |worker| Refused { worker, at };
    let copies = world.redundancy.partners_of(me).map(of);
    rt.recovery.heritage.borrow_mut().refused.extend(copies);
}

/// Returns the workers whose replicas, stored by this worker, are damaged.
///
/// This worker's own replica may share damaged pages with them.
fn damaged_at(rt: &Runtime, me: Worker) -> Vec<Worker> {
    let (keep, redundancy) = (copies::keep(rt), &world::get(rt).redundancy);
    let partners = redundancy.partners_of(me).zip(&keep.partners);
    // The checksums of parity are in its description.
    let partners = partners.filter(|(_, copy)| {
        !redundancy.is_parity() && keep.store.damaged(copy.image.runs()).is_some()
    });
    partners.map(|(worker, _)| worker).collect()
}

/// Removes the refusal of this worker's own replica, which was replaced.
pub fn take_back_own_refusal(rt: &Runtime, me: Worker) {
    let at = world::get(rt).process;
    rt.recovery
        .heritage
        .borrow_mut()
        .refused
        .retain(|copy| *copy != Refused { worker: me, at });
}

/// Drops the record of replicas in this process.
pub fn forget_held(rt: &Runtime) {
    rt.recovery.heritage.borrow_mut().held = None;
}

/// Marks this worker's own replica as missing, since another one replaces it.
///
/// Stored replicas of this epoch stay valid.
pub fn forget_own(rt: &Runtime, plan: &Plan, me: Worker) {
    let held = &mut rt.recovery.heritage.borrow_mut().held;
    *held = held.filter(|held| held.own == me && held.epoch == plan.epoch);
    if let Some(held) = held {
        held.has_own = false;
    }
}

/// Records that this process has got its worker's own replica.
pub fn has_own(rt: &Runtime, plan: &Plan, me: Worker) {
    take_back_own_refusal(rt, me);
    let held = &mut rt.recovery.heritage.borrow_mut().held;
    *held = Some(Held {
        own: me,
        has_own: true,
        layers: held.map_or(0, |held| held.layers),
        epoch: plan.epoch,
        whole: None,
        player: None,
    });
}

/// Records that this joining process has got replicas of other workers, in these layers.
pub fn note_layers(rt: &Runtime, layers: u64) {
    if let Some(held) = &mut rt.recovery.heritage.borrow_mut().held {
        held.layers |= layers;
    }
}
