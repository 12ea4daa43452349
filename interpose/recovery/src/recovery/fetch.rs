//! Replicas after a failure: lost and damaged ones are fetched or rebuilt.

use super::found::{self, has_own, note_layers, refuse_own};
use super::group;
use super::load::{self, Damaged};
use super::moves::{Move, drive};
use crate::Runtime;
use crate::copies::{self, Payload, Transfer};
use crate::ending::fail;
use crate::rehearsal::{self, Offer, Rebuild};
use crate::{disk, events, marks, world};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::absent;
use understudy_image::prefault::Prefault;
use understudy_image::runs::normalise;
use understudy_mpi as mpi;
use understudy_numbers::Worker;
use understudy_policy::recovery_plan::{self as plan, Plan, Remake};

/// Sends replicas to the workers that have none of their own, and receives this worker's.
///
/// A replacement meanwhile makes its memory present, if it has no memory at these addresses yet.
pub fn fetch(rt: &Runtime, plan: &Plan, me: Worker) -> mpi::Result<Option<Prefault>> {
    if world::get(rt).redundancy.is_parity() {
        return fetch_from_group(rt, plan, me);
    }
    let source = plan.source(me);
    let mut moves: Vec<Move> = source.map(Move::receive).into_iter().collect();
    for fetch in plan.fetches.iter().filter(|fetch| fetch.from == me) {
        if let Some(layer) = world::get(rt).redundancy.layer(fetch.worker, me) {
            let keep = copies::keep(rt);
            let transfer = Transfer::of(&keep.partners[layer], &keep.store);
            moves.push(Move::send(transfer, fetch.worker));
        }
    }
    let rebuild = Missing::learn(rt, plan, me)?;
    let may_prepare = plan.takeover(me).is_some();
    if source.is_some() {
        found::forget_own(rt, plan, me);
    }
    let mut ready = None;
    drive(rt, &mut moves, |transfer| {
        if let (true, None, Some((header, state))) = (may_prepare, &ready, transfer.head())
            && state.is_whole()
        {
            ready = Some(load::prepare(rt, normalise(header.runs.clone()), state));
        }
    })?;
    let received = moves.iter_mut().find_map(|it| it.transfer.take_received());
    if let Some(payload) = received {
        if payload.epoch() != plan.epoch {
            let damaged = Damaged(format!("it is of checkpoint {}", payload.epoch()));
            payload.give_up(&mut copies::keep(rt).store);
            return Err(refuse_own(rt, plan, me, &damaged));
        }
        keep_own(rt, payload);
        if let Err(why) = rebuild.add(rt, me) {
            let damaged = Damaged(format!("its static data cannot be rebuilt: {why}"));
            return Err(refuse_own(rt, plan, me, &damaged));
        }
        has_own(rt, plan, me);
    }
    Ok(ready)
}

fn keep_own(rt: &Runtime, payload: Payload) {
    let keep = &mut *copies::keep(rt);
    payload
        .apply(&mut keep.own, &mut keep.store)
        .unwrap_or_else(|error| fail(rt, message::FETCHED_REPLICA_NOT_STORED, &error));
}

/// Fetches replicas with parity: all other members of the group send their parts.
fn fetch_from_group(rt: &Runtime, plan: &Plan, me: Worker) -> mpi::Result<Option<Prefault>> {
    let lost = plan.fetches.iter().filter(|fetch| fetch.from == me);
    let mut moves: Vec<Move> = lost
        .filter_map(|fetch| group::send_piece(rt, fetch.worker, me))
        .collect();
    drive(rt, &mut moves, |_| ())?;
    if plan.source(me).is_none() {
        return Ok(None);
    }
    found::forget_held(rt);
    let (copy, ready) = group::gather(rt, plan, me, plan.takeover(me).is_some())?;
    let keep = &mut *copies::keep(rt);
    keep.own.replace(copy, &mut keep.store);
    has_own(rt, plan, me);
    Ok(ready)
}

/// Pages that the fetched replica omits.
enum Missing {
    Nothing,
    /// The template process makes them.
    Replayed(Rebuild),
    /// This process has them, except those that it has changed.
    Present(Offer),
    /// The reason why they cannot be made.
    Lost(String),
}

impl Missing {
    /// Receives the list of pages that the incoming replica omits; buddies send such lists.
    ///
    /// If the pages need a replay, the replay starts here.
    fn learn(rt: &Runtime, plan: &Plan, me: Worker) -> mpi::Result<Missing> {
        let (keep, world) = (copies::keep(rt), world::get(rt));
        let sent = plan.fetches.iter().filter(|fetch| fetch.from == me);
        let thin = sent.filter_map(|fetch| {
            let layer = world.redundancy.layer(fetch.worker, me)?;
            let copy = &keep.partners[layer];
            Some((fetch.worker, &copy.image, copy.script.as_ref()))
        });
        let from: Vec<Worker> = plan.source(me).into_iter().collect();
        let offers = rehearsal::offer(rt, thin.collect(), &from)?;
        drop(keep);
        Ok(match offers.into_iter().next().flatten() {
            None => Missing::Nothing,
            Some(offer) if plan.takeover(me).is_none() => Missing::Present(offer),
            Some(offer) => Rebuild::start(rt, offer).map_or_else(Missing::Lost, Missing::Replayed),
        })
    }

    /// Adds the pages to the replica.
    fn add(self, rt: &Runtime, me: Worker) -> Result<(), String> {
        let keep = &mut *copies::keep(rt);
        let before = keep.own.image.page_count();
        let (script, took) = match self {
            Missing::Nothing => return Ok(()),
            Missing::Lost(why) => return Err(why),
            Missing::Present(offer) => {
                let began = Instant::now();
                rehearsal::from_own_memory(rt, &offer, &mut keep.own.image, &mut keep.store)?;
                (offer.into_script(), began.elapsed())
            }
            Missing::Replayed(rebuild) => {
                rebuild.finish(rt, &mut keep.own.image, &mut keep.store)?
            }
        };
        rehearsal::keep_script(rt, script);
        events::emit(Kind::Rebuilt {
            worker: me,
            pages: keep.own.image.page_count() - before,
            ns: took.as_nanos() as u64,
        });
        Ok(())
    }
}

/// Starts to make memory present for the replicas that a replacement will store.
///
/// These replicas are about as long as its own.
pub fn expect_partners(rt: &Runtime, plan: &Plan, me: Worker) -> Option<Prefault> {
    plan.takeover(me)?;
    let awaited = plan.remakes.iter().filter(|remake| remake.at == me).count() as u64;
    let keep = &mut *copies::keep(rt);
    let pages = awaited * keep.own.image.page_count();
    (pages > 0).then(|| Prefault::start(keep.store.upcoming(pages)))
}

/// Makes the epoch that was read from the disk this worker's own replica.
pub fn fetch_from_disk(rt: &Runtime, me: Worker) {
    found::forget_held(rt);
    if let Some(loaded) = disk::take_chosen(rt) {
        copies::replace_own(rt, loaded.image, loaded.state);
        found::take_back_own_refusal(rt, me);
    }
}

/// Makes all replicas of every worker after a restart.
pub fn make_all(rt: &Runtime, me: Worker) -> mpi::Result<()> {
    let world = world::get(rt);
    make_again(
        rt,
        &plan::every_copy(&world.redundancy, world.worker_count),
        me,
    )
}

/// Completes this worker's own replica before it is sent.
///
/// Pages that the replica omits because functions restore them are in memory, which was just
/// restored.
fn complete_own(rt: &Runtime) {
    let keep = &mut *copies::keep(rt);
    let (image, store) = (&mut keep.own.image, &mut keep.store);
    let lacked = absent::among(image.absent(), &marks::lasting(rt).reversible_pages());
    let kept = rehearsal::keep_unchanged(&lacked, image, store);
    let changed = kept.unwrap_or_else(|why| {
        fail(
            rt,
            message::NO_MEMORY_FOR_REPLICAS,
            &std::io::Error::other(why),
        )
    });
    if !changed.is_empty() {
        fail(
            rt,
            message::REPLICA_NOT_REBUILT,
            &std::io::Error::other("memory has changed since it was restored"),
        );
    }
}

/// Rebuilds replicas: their workers send them to the buddies.
pub fn make_again(rt: &Runtime, remakes: &[Remake], me: Worker) -> mpi::Result<()> {
    if remakes.iter().any(|remake| remake.worker == me) {
        complete_own(rt);
    }
    let (keep, world) = (copies::keep(rt), world::get(rt));
    let redundancy = &world.redundancy;
    let mut expected: Vec<&Remake> = remakes.iter().filter(|remake| remake.at == me).collect();
    expected.sort_unstable_by_key(|remake| remake.layer);
    let own = remakes.iter().filter(|remake| remake.worker == me);
    let script = rehearsal::own_script(rt);
    let thin = own
        .clone()
        .map(|remake| (remake.at, &keep.own.image, script.as_deref()));
    let from: Vec<Worker> = expected.iter().map(|remake| remake.worker).collect();
    let offers = rehearsal::offer(rt, thin.collect(), &from)?;
    drop((keep, script));
    let mut moves: Vec<Move> = expected
        .iter()
        .map(|remake| Move::receive(remake.worker))
        .collect();
    for remake in own {
        moves.push(match redundancy.is_parity() {
            true => group::send_contribution(rt, remake, redundancy.layers(me)),
            false => {
                let keep = copies::keep(rt);
                Move::send(Transfer::of(&keep.own, &keep.store), remake.at)
            }
        });
    }
    drive(rt, &mut moves, |_| ())?;
    if redundancy.is_parity() {
        let payloads: Vec<_> = moves
            .iter_mut()
            .filter_map(|it| it.transfer.take_received())
            .collect();
        if !payloads.is_empty() {
            group::keep_parity(rt, payloads);
            note_layers(rt, (1 << redundancy.layers(me)) - 1);
        }
        return Ok(());
    }
    for ((it, remake), offer) in moves.iter_mut().zip(expected).zip(offers) {
        if let Some(payload) = it.transfer.take_received() {
            let keep = &mut *copies::keep(rt);
            let copy = &mut keep.partners[remake.layer];
            payload
                .apply(copy, &mut keep.store)
                .unwrap_or_else(|error| fail(rt, message::REPLICA_NOT_STORED, &error));
            if let Some(offer) = offer {
                offer.note_in(copy);
            }
            copies::share(rt, keep, remake.layer);
            note_layers(rt, 1 << remake.layer);
        }
    }
    Ok(())
}
