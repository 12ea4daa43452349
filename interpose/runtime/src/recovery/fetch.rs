//! Copies after a failure: those that died with a rank are fetched or made again, and so are damaged ones.

use super::found::{self, has_own, note_layers, refuse_own};
use super::group;
use super::load::{self, Damaged};
use super::moves::{Move, drive};
use super::plan::{self, Plan, Remake};
use crate::copies::{self, Payload, Transfer};
use crate::ending::fail;
use crate::image::prefault::Prefault;
use crate::image::restore::Ready;
use crate::image::runs::normalise;
use crate::rehearsal::{self, Offer, Rebuild};
use crate::world;
use crate::{disk, events};
use ckptd::events::Kind;
use std::time::Instant;
use understudy_mpi as mpi;
use understudy_numbers::Worker;

/// The holders send copies to those workers that have none of their own. Such a process makes memory ready for it meanwhile,
/// if it has nothing there yet.
pub fn fetch(plan: &Plan, me: Worker) -> mpi::Result<Option<Ready>> {
    if world::get().redundancy.is_parity() {
        return fetch_from_group(plan, me);
    }
    let source = plan.source(me);
    let mut moves: Vec<Move> = source.map(Move::receive).into_iter().collect();
    for fetch in plan.fetches.iter().filter(|fetch| fetch.from == me) {
        if let Some(layer) = world::get().redundancy.layer(fetch.worker, me) {
            let keep = copies::keep();
            let transfer = Transfer::of(&keep.partners[layer], &keep.store);
            moves.push(Move::send(transfer, fetch.worker));
        }
    }
    let rebuild = Missing::learn(plan, me)?;
    let may_prepare = plan.takeover(me).is_some();
    if source.is_some() {
        found::forget_held();
    }
    let mut ready = None;
    drive(&mut moves, |transfer| {
        if let (true, None, Some((header, state))) = (may_prepare, &ready, transfer.head())
            && state.is_whole()
        {
            ready = Some(load::prepare(normalise(header.runs.clone()), state));
        }
    })?;
    let received = moves.iter_mut().find_map(|it| it.transfer.take_received());
    if let Some(payload) = received {
        if payload.epoch() != plan.epoch {
            let damaged = Damaged(format!("it is of epoch {}", payload.epoch()));
            payload.give_up(&mut copies::keep().store);
            return Err(refuse_own(plan, me, &damaged));
        }
        keep_own(payload);
        if let Err(why) = rebuild.add(me) {
            let damaged = Damaged(format!("its static data cannot be rebuilt: {why}"));
            return Err(refuse_own(plan, me, &damaged));
        }
        has_own(plan, me);
    }
    Ok(ready)
}

fn keep_own(payload: Payload) {
    let keep = &mut *copies::keep();
    payload
        .apply(&mut keep.own, &mut keep.store)
        .unwrap_or_else(|error| fail("the copy of a worker cannot be kept", &error));
}

/// The same with parity: all others of the group have a part in each copy.
fn fetch_from_group(plan: &Plan, me: Worker) -> mpi::Result<Option<Ready>> {
    let lost = plan.fetches.iter().filter(|fetch| fetch.from == me);
    let mut moves: Vec<Move> = lost.filter_map(|fetch| group::send_piece(fetch.worker, me)).collect();
    drive(&mut moves, |_| ())?;
    if plan.source(me).is_none() {
        return Ok(None);
    }
    found::forget_held();
    let (copy, ready) = group::gather(plan, me, plan.takeover(me).is_some())?;
    let keep = &mut *copies::keep();
    keep.own.replace(copy, &mut keep.store);
    has_own(plan, me);
    Ok(ready)
}

/// What the copy that is fetched lacks.
enum Missing {
    Nothing,
    /// The seed makes it.
    Replayed(Rebuild),
    /// This process has it, but for what it has changed.
    Present(Offer),
    /// It cannot be made.
    Lost(String),
}

impl Missing {
    /// The holders say what is missing in the copies that they are about to send. Where a replay is needed it begins.
    fn learn(plan: &Plan, me: Worker) -> mpi::Result<Missing> {
        let (keep, world) = (copies::keep(), world::get());
        let sent = plan.fetches.iter().filter(|fetch| fetch.from == me);
        let thin = sent.filter_map(|fetch| {
            let layer = world.redundancy.layer(fetch.worker, me)?;
            let copy = &keep.partners[layer];
            Some((fetch.worker, &copy.image, copy.script.as_ref()))
        });
        let from: Vec<Worker> = plan.source(me).into_iter().collect();
        let offers = rehearsal::offer(thin.collect(), &from)?;
        drop(keep);
        Ok(match offers.into_iter().next().flatten() {
            None => Missing::Nothing,
            Some(offer) if plan.takeover(me).is_none() => Missing::Present(offer),
            Some(offer) => Rebuild::start(offer).map_or_else(Missing::Lost, Missing::Replayed),
        })
    }

    /// Adds it to the copy.
    fn add(self, me: Worker) -> Result<(), String> {
        let keep = &mut *copies::keep();
        let before = keep.own.image.page_count();
        let (script, took) = match self {
            Missing::Nothing => return Ok(()),
            Missing::Lost(why) => return Err(why),
            Missing::Present(offer) => {
                let began = Instant::now();
                rehearsal::from_own_memory(&offer, &mut keep.own.image, &mut keep.store)?;
                (offer.into_script(), began.elapsed())
            }
            Missing::Replayed(rebuild) => rebuild.finish(&mut keep.own.image, &mut keep.store)?,
        };
        rehearsal::keep_script(script);
        events::emit(Kind::Rebuilt {
            worker: me,
            pages: keep.own.image.page_count() - before,
            ns: took.as_nanos() as u64,
        });
        Ok(())
    }
}

/// Begins to make memory present for the copies that a new player will keep for its partners, which are about as long as
/// its own.
pub fn expect_partners(plan: &Plan, me: Worker) -> Option<Prefault> {
    plan.takeover(me)?;
    let awaited = plan.remakes.iter().filter(|remake| remake.at == me).count() as u64;
    let keep = &mut *copies::keep();
    let pages = awaited * keep.own.image.page_count();
    (pages > 0).then(|| Prefault::start(keep.store.upcoming(pages)))
}

/// What was read from the disk is this rank's own epoch.
pub fn fetch_from_disk(me: Worker) {
    found::forget_held();
    if let Some(loaded) = disk::take_chosen() {
        copies::replace_own(loaded.image, loaded.state);
        found::take_back_own_refusal(me);
    }
}

/// Every worker's copies, after a restart.
pub fn make_all(me: Worker) -> mpi::Result<()> {
    let world = world::get();
    make_again(&plan::every_copy(&world.redundancy, world.worker_count), me)
}

/// Copies that are to be made again: their workers send them.
pub fn make_again(remakes: &[Remake], me: Worker) -> mpi::Result<()> {
    let (keep, world) = (copies::keep(), world::get());
    let redundancy = &world.redundancy;
    let mut expected: Vec<&Remake> = remakes.iter().filter(|remake| remake.at == me).collect();
    expected.sort_unstable_by_key(|remake| remake.layer);
    let own = remakes.iter().filter(|remake| remake.worker == me);
    let script = rehearsal::own_script();
    let thin = own
        .clone()
        .map(|remake| (remake.at, &keep.own.image, script.as_deref()));
    let from: Vec<Worker> = expected.iter().map(|remake| remake.worker).collect();
    let offers = rehearsal::offer(thin.collect(), &from)?;
    drop((keep, script));
    let mut moves: Vec<Move> = expected.iter().map(|remake| Move::receive(remake.worker)).collect();
    for remake in own {
        moves.push(match redundancy.is_parity() {
            true => group::send_contribution(remake, redundancy.layers(me)),
            false => {
                let keep = copies::keep();
                Move::send(Transfer::of(&keep.own, &keep.store), remake.at)
            }
        });
    }
    drive(&mut moves, |_| ())?;
    if redundancy.is_parity() {
        let payloads: Vec<_> = moves.iter_mut().filter_map(|it| it.transfer.take_received()).collect();
        if !payloads.is_empty() {
            group::keep_parity(payloads);
            note_layers((1 << redundancy.layers(me)) - 1);
        }
        return Ok(());
    }
    for ((it, remake), offer) in moves.iter_mut().zip(expected).zip(offers) {
        if let Some(payload) = it.transfer.take_received() {
            let keep = &mut *copies::keep();
            let copy = &mut keep.partners[remake.layer];
            payload
                .apply(copy, &mut keep.store)
                .unwrap_or_else(|error| fail("a partner's copy cannot be kept", &error));
            if let Some(offer) = offer {
                offer.note_in(copy);
            }
            note_layers(1 << remake.layer);
        }
    }
    Ok(())
}
