//! Reconstruction with parity: replicas from a parity group, and parity from its members.

use super::found::refuse_own;
use super::load::{self, Damaged};
use super::moves::{Move, drive};
use crate::Runtime;
use crate::copies::parity::{self, Description, Folding};
use crate::copies::{self, Copy, Payload};
use crate::ending::fail;
use crate::world;
use understudy_catalogue::message;
use understudy_image::epoch::{Image, SlotRun};
use understudy_image::parity::{Combine, accumulate, blank};
use understudy_image::prefault::Prefault;
use understudy_mpi as mpi;
use understudy_numbers::{Epoch, Worker};
use understudy_policy::recovery_plan::{Plan, Remake};

/// Returns the transfer of this worker's part of a lost member's replica.
pub fn send_piece(rt: &Runtime, lost: Worker, me: Worker) -> Option<Move> {
    let (world, keep) = (world::get(rt), copies::keep(rt));
    let redundancy = &world.redundancy;
    let layer = redundancy.layer(lost, me)?;
    let layers: Vec<Option<usize>> = redundancy
        .holders_of(me)
        .map(|holder| redundancy.layer(lost, holder))
        .collect();
    let transfer = parity::piece(&keep.own, &keep.partners[0], layer, &layers, &keep.store);
    Some(Move::send(transfer, lost))
}

/// Reconstructs this worker's replica from the parts of the other members of its group.
///
/// The parts arrive one after the other, since all together could need more memory than there is.
pub fn gather(
    rt: &Runtime,
    plan: &Plan,
    me: Worker,
    is_new: bool,
) -> mpi::Result<(Copy, Option<Prefault>)> {
    let mut copy = Copy::default();
    let mut ready = None;
    for holder in plan.sources(me) {
        let mut moves = [Move::receive(holder)];
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
                copy.image.clear(&mut copies::keep(rt).store);
                driven?;
                continue;
            }
        };
        if let Err(damaged) = added {
            copy.image.clear(&mut copies::keep(rt).store);
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
    copy: &mut Copy,
    ready: Option<&mut Option<Prefault>>,
) -> Result<(), Damaged> {
    let of = payload.epoch();
    let (runs, state) = payload.into_parts();
    let mut outcome = Ok(());
    if of != epoch {
        outcome = Err(Damaged(format!("a part of it is of checkpoint {of}")));
    } else if copy.image.epoch() == Epoch::NONE {
        match Description::decode(&state).filter(|description| description.epoch == epoch) {
            None => outcome = Err(Damaged("its description has a wrong checksum".into())),
            Some(description) => {
                *copy = begin(rt, &description);
                if let Some(ready) = ready.filter(|_| copy.state.is_whole()) {
                    *ready = Some(load::prepare(rt, description.pages, &copy.state));
                }
            }
        }
    }
    let store = &mut copies::keep(rt).store;
    if outcome.is_ok() {
        accumulate(copy.image.runs(), &runs, store);
    }
    store.release(runs.into_iter().map(SlotRun::extent));
    outcome
}

/// Returns a replica as described, without content.
fn begin(rt: &Runtime, description: &Description) -> Copy {
    let store = &mut copies::keep(rt).store;
    let image = blank(description.epoch, &description.pages, store)
        .unwrap_or_else(|error| fail(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
    store.note_sums(image.runs(), &description.sums);
    Copy {
        image,
        state: description.state(),
        script: None,
    }
}

/// Returns the transfer of this worker's contribution to parity that is rebuilt.
pub fn send_contribution(rt: &Runtime, remake: &Remake, layers: usize) -> Move {
    let keep = copies::keep(rt);
    let transfer = parity::contribution(&keep.own, remake.layer, layers, &keep.store);
    Move::send(transfer, remake.at)
}

/// Stores the parity that results from the contributions of the other members, by layer.
pub fn keep_parity(rt: &Runtime, payloads: Vec<Payload>) {
    let keep = &mut *copies::keep(rt);
    let epoch = payloads.first().map_or(Epoch::NONE, Payload::epoch);
    let (mut combine, mut kept) = (Combine::default(), Copy::default());
    let folding = Folding::new(
        payloads,
        &Image::new(),
        epoch,
        &mut combine,
        &mut keep.store,
    )
    .unwrap_or_else(|error| fail(rt, message::NO_MEMORY_FOR_REPLICAS, &error));
    let is_something = combine.run();
    folding
        .apply(&is_something, &mut kept, &mut keep.store)
        .unwrap_or_else(|error| fail(rt, message::PARITY_NOT_STORED, &error));
    keep.partners[0].replace(kept, &mut keep.store);
}
