//! What this process tells of copies in a recovery: what it has got, and what was damaged.

use super::load::Damaged;
use super::newcomers::welcome;
use crate::Runtime;
use crate::{copies, disk, world};
use understudy_catalogue::message;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::recovery_plan::{Held, Plan, Refused};

/// What this newcomer has got in an attempt that came to nothing, or from a dead process.
pub fn held(rt: &Runtime) -> Option<Held> {
    rt.recovery.heritage.borrow().held
}

/// Takes what a dead process has left to this newcomer, if it has.
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

/// Everybody goes back to this epoch.
pub fn resolve(rt: &Runtime, epoch: Epoch) {
    copies::resolve(rt, epoch);
    if let Some(held) = &mut rt.recovery.heritage.borrow_mut().held
        && held.reaches(epoch)
    {
        (held.epoch, held.whole) = (epoch, None);
    }
}

/// The recovery has succeeded: what this process has is that of its part.
pub fn settle(rt: &Runtime) {
    rt.recovery.heritage.borrow_mut().held = None;
    copies::renew_legacy(rt, welcome(rt));
}

/// Damaged copies that this process has met in this recovery.
pub fn refused(rt: &Runtime) -> Vec<Refused> {
    rt.recovery.heritage.borrow().refused.clone()
}

/// The recovery has succeeded: damaged copies have been made again.
pub fn forget_refusals(rt: &Runtime) {
    rt.recovery.heritage.borrow_mut().refused.clear();
}

/// The copy that this worker was to load is damaged, and so is the one that it was fetched from:
/// nobody may use them any more. The error with which the attempt ends; in the next, another copy
/// is taken.
pub fn refuse_own(rt: &Runtime, plan: &Plan, me: Worker, damaged: &Damaged) -> mpi::Error {
    let own = world::get(rt).process;
    let from = plan
        .source(me)
        .map_or(own, |holder| plan.players[holder.index()]);
    log::warn!("{}", message::copy_not_used(me, from, &damaged.0));
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

/// All go back to an epoch on disk: until what this worker keeps of its partners has been made
/// again, it is of another epoch.
pub fn refuse_partners(rt: &Runtime, me: Worker) {
    let world = world::get(rt);
    let at = world.process;
    let of = |worker| Refused { worker, at };
    let copies = world.redundancy.partners_of(me).map(of);
    rt.recovery.heritage.borrow_mut().refused.extend(copies);
}

/// The workers whose copies, kept by this one, are damaged: with pages that its own copy shares
/// with them, for example.
fn damaged_at(rt: &Runtime, me: Worker) -> Vec<Worker> {
    let (keep, redundancy) = (copies::keep(rt), &world::get(rt).redundancy);
    let partners = redundancy.partners_of(me).zip(&keep.partners);
    // The checksums of parity are with its description.
    let partners = partners.filter(|(_, copy)| {
        !redundancy.is_parity() && keep.store.damaged(copy.image.runs()).is_some()
    });
    partners.map(|(worker, _)| worker).collect()
}

/// This process has a new copy of its own.
pub fn take_back_own_refusal(rt: &Runtime, me: Worker) {
    let at = world::get(rt).process;
    rt.recovery
        .heritage
        .borrow_mut()
        .refused
        .retain(|copy| *copy != Refused { worker: me, at });
}

/// This process has nothing that counts as a copy any more.
pub fn forget_held(rt: &Runtime) {
    rt.recovery.heritage.borrow_mut().held = None;
}

/// Another copy of this worker comes in place of its own; those of partners are what they were, if
/// they are of this epoch.
pub fn forget_own(rt: &Runtime, plan: &Plan, me: Worker) {
    let held = &mut rt.recovery.heritage.borrow_mut().held;
    *held = held.filter(|held| held.own == me && held.epoch == plan.epoch);
    if let Some(held) = held {
        held.has_own = false;
    }
}

/// This process has got a copy of its own.
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

/// This process, if it is a newcomer, has got copies of partners in these layers.
pub fn note_layers(rt: &Runtime, layers: u64) {
    if let Some(held) = &mut rt.recovery.heritage.borrow_mut().held {
        held.layers |= layers;
    }
}
