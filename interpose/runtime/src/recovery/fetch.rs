//! Copies after a failure: those that died with a rank are fetched or made again, and so are damaged ones.

use super::group;
use super::load::{self, Damaged};
use super::plan::{self, Held, Plan, Refused, Remake};
use super::welcome;
use crate::cell::Main;
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
use understudy_mpi::both;
use understudy_numbers::{Epoch, Worker};

/// What this process tells of copies in a recovery.
struct Found {
    /// What this newcomer has got in an attempt that came to nothing, or from a dead process.
    held: Option<Held>,
    /// Damaged copies that it has met.
    refused: Vec<Refused>,
}

static FOUND: Main<Found> = Main::new(Found {
    held: None,
    refused: Vec::new(),
});

/// What this newcomer has got in an attempt that came to nothing, or from a dead process.
pub fn held() -> Option<Held> {
    FOUND.borrow().held
}

/// Takes what a dead process has left to this newcomer, if it has.
pub fn inherit() {
    if let Some(got) = copies::adopt() {
        log::debug!("inherited: {got:?}");
        FOUND.borrow_mut().held = Some(Held {
            own: got.worker,
            layers: (1 << world::get().redundancy.layers(got.worker)) - 1,
            epoch: got.committed,
            whole: got.whole,
            player: Some(got.player),
        });
    }
}

/// Everybody goes back to this epoch.
pub fn resolve(epoch: Epoch) {
    copies::resolve(epoch);
    if let Some(held) = &mut FOUND.borrow_mut().held
        && held.reaches(epoch)
    {
        (held.epoch, held.whole) = (epoch, None);
    }
}

/// The recovery has succeeded: what this process has is that of its part.
pub fn settle() {
    FOUND.borrow_mut().held = None;
    copies::renew_legacy(welcome());
}

/// Damaged copies that this process has met in this recovery.
pub fn refused() -> Vec<Refused> {
    FOUND.borrow().refused.clone()
}

/// The recovery has succeeded: damaged copies have been made again.
pub fn forget_refusals() {
    FOUND.borrow_mut().refused.clear();
}

/// The copy that this worker was to load is damaged, and so is the one that it was fetched from: nobody may use them any
/// more. The error with which the attempt ends; in the next, another copy is taken.
pub fn refuse_own(plan: &Plan, me: Worker, damaged: &Damaged) -> mpi::Error {
    let own = world::get().process;
    let from = plan.source(me).map_or(own, |holder| plan.players[holder.index()]);
    log::warn!("the copy of worker {me} at rank {from} is not used: {}", damaged.0);
    let mut found = FOUND.borrow_mut();
    for at in [own, from] {
        let copy = Refused { worker: me, at };
        if !found.refused.contains(&copy) {
            found.refused.push(copy);
        }
    }
    found.held = None;
    mpi::Error::OTHER
}

/// This process has a new copy of its own.
fn take_back_own_refusal(me: Worker) {
    let at = world::get().process;
    FOUND
        .borrow_mut()
        .refused
        .retain(|copy| *copy != Refused { worker: me, at });
}

/// A transfer with one other worker.
pub struct Move {
    /// The transfer.
    pub transfer: Transfer,
    to: Option<Worker>,
    from: Option<Worker>,
}

impl Move {
    /// To another worker.
    pub fn send(transfer: Transfer, to: Worker) -> Move {
        Move {
            transfer,
            to: Some(to),
            from: None,
        }
    }

    /// From another worker.
    pub fn receive(from: Worker) -> Move {
        Move {
            transfer: Transfer::receive_only(),
            to: None,
            from: Some(from),
        }
    }
}

/// Drives transfers to their end; `poll` is called again and again for each meanwhile.
pub fn drive(moves: &mut [Move], mut poll: impl FnMut(&Transfer)) -> mpi::Result<()> {
    let start = |it: &mut Move| it.transfer.start(world::private(), it.to, it.from);
    let mut driven = moves.iter_mut().map(start).fold(Ok(()), both);
    while driven.is_ok() && !moves.iter().all(|it| it.transfer.is_done()) {
        for it in moves.iter_mut() {
            driven = both(driven, it.transfer.poll(&mut copies::keep().store));
            poll(&it.transfer);
        }
    }
    if driven.is_err() {
        for it in moves {
            it.transfer = Transfer::receive_only();
        }
    }
    driven
}

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
        FOUND.borrow_mut().held = None;
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

/// This process has got a copy of its own.
fn has_own(plan: &Plan, me: Worker) {
    take_back_own_refusal(me);
    FOUND.borrow_mut().held = Some(Held {
        own: me,
        layers: 0,
        epoch: plan.epoch,
        whole: None,
        player: None,
    });
}

/// This process, if it is a newcomer, has got copies of partners in these layers.
fn note_layers(layers: u64) {
    if let Some(held) = &mut FOUND.borrow_mut().held {
        held.layers |= layers;
    }
}

/// The same with parity: all others of the group have a part in each copy.
fn fetch_from_group(plan: &Plan, me: Worker) -> mpi::Result<Option<Ready>> {
    let lost = plan.fetches.iter().filter(|fetch| fetch.from == me);
    let mut moves: Vec<Move> = lost.filter_map(|fetch| group::send_piece(fetch.worker, me)).collect();
    drive(&mut moves, |_| ())?;
    if plan.source(me).is_none() {
        return Ok(None);
    }
    FOUND.borrow_mut().held = None;
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
    FOUND.borrow_mut().held = None;
    if let Some(loaded) = disk::take_chosen() {
        copies::replace_own(loaded.image, loaded.state);
        take_back_own_refusal(me);
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
