//! Reconstruction with parity: replicas from a parity group, and parity from its members.

use super::load::{self, ReplicaDamage};
use super::reported_replicas::refuse_own;
use super::transfers::{ReplicaTransfer, drive};
use crate::Runtime;
use crate::abort::abort_with_error;
use crate::copies::parity_transfer::{self, EpochDescription, Folding};
use crate::copies::{self, Payload, Replica};
use crate::world;
use understudy_catalogue::message;
use understudy_image::image_delta::{Image, SlotRun};
use understudy_image::parity::{XorPlan, accumulate, zero_image};
use understudy_image::prefault::Prefault;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::recovery_plan::{Plan, ReplicaRebuild};

/// Returns the transfer of this worker's part of a lost member's replica.
pub fn send_part(rt: &Runtime, lost: Worker, me: Worker) -> Option<ReplicaTransfer> {
    let (world, keep) = (world::get(rt), copies::replicas(rt));
    let redundancy = &world.redundancy;
    let layer = redundancy.layer(lost, me)?;
    let layers: Vec<Option<usize>> = redundancy
        .buddies_of(me)
        .map(|buddy| redundancy.layer(lost, buddy))
        .collect();
    let transfer = parity_transfer::reconstruction_piece(
        &keep.own,
        &keep.stored[0],
        layer,
        &layers,
        &keep.store,
    );
    Some(ReplicaTransfer::send(transfer, lost))
}

/// Reconstructs this worker's replica from the parts of the other members of its group.
///
/// The parts arrive one after the other, since all parts together could need more memory than is
/// available. `is_new` is true if this process takes over from the worker.
pub fn gather(
    rt: &Runtime,
    plan: &Plan,
    me: Worker,
    is_new: bool,
) -> mpi::Result<(Replica, Option<Prefault>)> {
    let mut copy = Replica::default();
    let mut ready = None;
    for buddy in plan.sources(me) {
        let mut moves = [ReplicaTransfer::receive(buddy)];
        let driven = drive(rt, &mut moves, |_| ());
        let payload = moves[0].transfer.take_received();
        let added = match (driven, payload) {
            (Ok(()), Some(payload)) => add(
                rt,
                payload,
                plan.epoch,
                &mut copy,
                is_new.then_some(&mut ready),
            ),
            (driven, _) => {
                copy.image.clear(&mut copies::replicas(rt).store);
                driven?;
                continue;
            }
        };
        if let Err(damaged) = added {
            copy.image.clear(&mut copies::replicas(rt).store);
            return Err(refuse_own(rt, plan, me, &damaged));
        }
    }
    Ok((copy, ready))
}

/// Adds the part of one member; the first part has the description.
fn add(
    rt: &Runtime,
    payload: Payload,
    epoch: Epoch,
    copy: &mut Replica,
    ready: Option<&mut Option<Prefault>>,
) -> Result<(), ReplicaDamage> {
    let part_epoch = payload.epoch();
    let (runs, state) = payload.into_parts();
    let mut outcome = Ok(());
    if part_epoch != epoch {
        outcome = Err(ReplicaDamage(format!(
            "its parity is of checkpoint {}",
            part_epoch
        )));
    } else if copy.image.epoch() == Epoch::NONE {
        match EpochDescription::decode(&state).filter(|description| description.epoch == epoch) {
            None => outcome = Err(ReplicaDamage("its description has a wrong checksum".into())),
            Some(description) => {
                *copy = begin(rt, &description);
                if let Some(ready) = ready.filter(|_| copy.state.is_unchanged()) {
                    *ready = Some(load::prepare(rt, description.pages, &copy.state));
                }
            }
        }
    }
    let store = &mut copies::replicas(rt).store;
    if outcome.is_ok() {
        accumulate(copy.image.runs(), &runs, store);
    }
    store.release(runs.into_iter().map(SlotRun::extent));
    outcome
}

/// Returns a replica as described, without content.
fn begin(rt: &Runtime, description: &EpochDescription) -> Replica {
    let store = &mut copies::replicas(rt).store;
    let image = zero_image(description.epoch, &description.pages, store)
        .unwrap_or_else(|error| abort_with_error(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
    store.set_sums(image.runs(), &description.sums);
    Replica {
        image,
        state: description.state(),
        replay_plan: None,
    }
}

/// Returns the transfer of this worker's contribution to parity that is rebuilt.
pub fn send_contribution(rt: &Runtime, rebuild: &ReplicaRebuild, layers: usize) -> ReplicaTransfer {
    let keep = copies::replicas(rt);
    let transfer = parity_transfer::contribution(&keep.own, rebuild.layer, layers, &keep.store);
    ReplicaTransfer::send(transfer, rebuild.at)
}

/// Stores the parity that results from the contributions of the other members, by layer.
pub fn store_parity(rt: &Runtime, payloads: Vec<Payload>) {
    let keep = &mut *copies::replicas(rt);
    let epoch = payloads.first().map_or(Epoch::NONE, Payload::epoch);
    let (mut combine, mut kept) = (XorPlan::default(), Replica::default());
    let folding = Folding::new(
        payloads,
        &Image::new(),
        epoch,
        &mut combine,
        &mut keep.store,
    )
    .unwrap_or_else(|error| abort_with_error(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
    let is_something = combine.execute();
    folding
        .apply(&is_something, &mut kept, &mut keep.store)
        .unwrap_or_else(|error| abort_with_error(rt, message::PARITY_NOT_STORED, &error));
    keep.stored[0].replace(kept, &mut keep.store);
}
