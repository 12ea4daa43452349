//! Replicas after a failure: lost and damaged ones are fetched or rebuilt.

use super::load::{self, ReplicaDamage};
use super::parity_reconstruction;
use super::reported_replicas::{inventory, refuse_own};
use super::transfers::{ReplicaTransfer, drive};
use crate::Runtime;
use crate::abort::abort_with_error;
use crate::copies::{self, Payload, Transfer};
use crate::static_data::{self, Rebuild, ReducedReplicaPlan};
use crate::{annotations, disk, events, world};
use std::time::Instant;
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_image::absent_pages;
use understudy_image::pages::normalise;
use understudy_image::prefault::Prefault;
use understudy_mpi as mpi;
use understudy_numbers::Worker;
use understudy_policy::recovery_plan::{self as plan, Plan, ReplicaRebuild};

/// Sends replicas to workers without an intact one, and receives this worker's replica if needed.
///
/// A replacement meanwhile maps the worker's memory, and makes it present.
pub fn fetch(rt: &Runtime, plan: &Plan, me: Worker) -> mpi::Result<Option<Prefault>> {
    if world::get(rt).redundancy.is_parity() {
        return fetch_from_group(rt, plan, me);
    }
    let source = plan.source(me);
    let mut moves: Vec<ReplicaTransfer> =
        source.map(ReplicaTransfer::receive).into_iter().collect();
    for fetch in plan.fetches.iter().filter(|fetch| fetch.from == me) {
        if let Some(layer) = world::get(rt).redundancy.layer(fetch.worker, me) {
            let keep = copies::replicas(rt);
            let transfer = Transfer::of(&keep.stored[layer], &keep.store);
            moves.push(ReplicaTransfer::send(transfer, fetch.worker));
        }
    }
    let rebuild = OmittedPageSource::exchange(rt, plan, me)?;
    let may_prepare = plan.takeover(me).is_some();
    if source.is_some() {
        inventory(rt).begin_fetch(me, plan.epoch);
    }
    let mut ready = None;
    drive(rt, &mut moves, |transfer| {
        if let (true, None, Some((header, state))) = (may_prepare, &ready, transfer.head())
            && state.is_unchanged()
        {
            ready = Some(load::prepare(rt, normalise(header.runs.clone()), state));
        }
    })?;
    let received = moves.iter_mut().find_map(|it| it.transfer.take_received());
    if let Some(payload) = received {
        if payload.epoch() != plan.epoch {
            let damaged = ReplicaDamage(format!("it is of checkpoint {}", payload.epoch()));
            payload.release_after_reset(&mut copies::replicas(rt).store);
            return Err(refuse_own(rt, plan, me, &damaged));
        }
        store_own(rt, payload);
        if let Err(why) = rebuild.add(rt, me) {
            let damaged = ReplicaDamage(format!("its static data cannot be rebuilt: {why}"));
            return Err(refuse_own(rt, plan, me, &damaged));
        }
        inventory(rt).end_fetch(me, plan.epoch, world::get(rt).process);
    }
    Ok(ready)
}

fn store_own(rt: &Runtime, payload: Payload) {
    let keep = &mut *copies::replicas(rt);
    payload
        .apply(&mut keep.own, &mut keep.store)
        .unwrap_or_else(|error| abort_with_error(rt, message::FETCHED_REPLICA_NOT_STORED, &error));
}

/// Fetches replicas with parity: all other members of the group send their parts.
fn fetch_from_group(rt: &Runtime, plan: &Plan, me: Worker) -> mpi::Result<Option<Prefault>> {
    let lost = plan.fetches.iter().filter(|fetch| fetch.from == me);
    let mut moves: Vec<ReplicaTransfer> = lost
        .filter_map(|fetch| parity_reconstruction::send_part(rt, fetch.worker, me))
        .collect();
    drive(rt, &mut moves, |_| ())?;
    if plan.source(me).is_none() {
        return Ok(None);
    }
    inventory(rt).begin_fetch(me, plan.epoch);
    let (copy, ready) = parity_reconstruction::gather(rt, plan, me, plan.takeover(me).is_some())?;
    let keep = &mut *copies::replicas(rt);
    keep.own.replace(copy, &mut keep.store);
    inventory(rt).end_fetch(me, plan.epoch, world::get(rt).process);
    Ok(ready)
}

/// Source of the pages that the fetched replica omits.
enum OmittedPageSource {
    /// The replica omits no pages.
    None,
    /// The template process rebuilds the pages.
    Replayed(Rebuild),
    /// This process has the pages in its memory, except those that it has changed.
    Present(ReducedReplicaPlan),
    /// Reason why the pages cannot be rebuilt.
    Lost(String),
}

impl OmittedPageSource {
    /// Exchanges the lists of pages that the fetched replicas omit: buddies send, fetching workers
    /// receive.
    ///
    /// Starts the replay if this process takes over from a worker and the worker's replica omits
    /// pages.
    fn exchange(rt: &Runtime, plan: &Plan, me: Worker) -> mpi::Result<OmittedPageSource> {
        let (keep, world) = (copies::replicas(rt), world::get(rt));
        let sent = plan.fetches.iter().filter(|fetch| fetch.from == me);
        let reduced = sent.filter_map(|fetch| {
            let layer = world.redundancy.layer(fetch.worker, me)?;
            let copy = &keep.stored[layer];
            Some((fetch.worker, &copy.image, copy.replay_plan.as_ref()))
        });
        let from: Vec<Worker> = plan.source(me).into_iter().collect();
        let offers = static_data::exchange_omitted(rt, reduced.collect(), &from)?;
        drop(keep);
        Ok(match offers.into_iter().next().flatten() {
            None => OmittedPageSource::None,
            Some(offer) if plan.takeover(me).is_none() => OmittedPageSource::Present(offer),
            Some(offer) => Rebuild::start(rt, offer)
                .map_or_else(OmittedPageSource::Lost, OmittedPageSource::Replayed),
        })
    }

    /// Adds the omitted pages to the replica.
    fn add(self, rt: &Runtime, me: Worker) -> Result<(), String> {
        let keep = &mut *copies::replicas(rt);
        let before = keep.own.image.page_count();
        let (plan, took) = match self {
            OmittedPageSource::None => return Ok(()),
            OmittedPageSource::Lost(why) => return Err(why),
            OmittedPageSource::Present(offer) => {
                let began = Instant::now();
                static_data::from_own_memory(rt, &offer, &mut keep.own.image, &mut keep.store)?;
                (offer.into_plan(), began.elapsed())
            }
            OmittedPageSource::Replayed(rebuild) => {
                rebuild.finish(rt, &mut keep.own.image, &mut keep.store)?
            }
        };
        static_data::store_plan(rt, plan);
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
/// `None` in a survivor. The replicas of other workers are assumed to have as many pages as the
/// replacement's own replica.
pub fn prepare_stored_replicas(rt: &Runtime, plan: &Plan, me: Worker) -> Option<Prefault> {
    plan.takeover(me)?;
    let awaited = plan
        .rebuilds
        .iter()
        .filter(|rebuild| rebuild.at == me)
        .count() as u64;
    let keep = &mut *copies::replicas(rt);
    let pages = awaited * keep.own.image.page_count();
    (pages > 0).then(|| Prefault::start(keep.store.take_untouched(pages)))
}

/// Makes the epoch that was read from the disk this worker's own replica.
///
/// Does nothing to the own replica if no epoch was read.
pub fn fetch_from_disk(rt: &Runtime, me: Worker) {
    inventory(rt).drop_kept();
    if let Some(loaded) = disk::take_chosen(rt) {
        copies::replace_own(rt, loaded.image, loaded.state);
        inventory(rt).accept(me, world::get(rt).process);
    }
}

/// Rebuilds all replicas of every worker after a restart.
pub fn rebuild_all(rt: &Runtime, me: Worker) -> mpi::Result<()> {
    let world = world::get(rt);
    rebuild_replicas(
        rt,
        &plan::all_replicas(&world.redundancy, world.worker_count),
        me,
    )
}

/// Completes this worker's own replica before it is sent.
///
/// The replica may omit pages whose changes a function of the program undoes (`understudy.h`). The
/// memory of the program was just restored, so the content of these pages is copied from there.
fn complete_own(rt: &Runtime) {
    let keep = &mut *copies::replicas(rt);
    let (image, store) = (&mut keep.own.image, &mut keep.store);
    let lacked = absent_pages::among(
        image.absent(),
        &annotations::saved_annotations(rt).reversible_pages(),
    );
    let kept = static_data::store_unchanged(&lacked, image, store);
    let changed = kept.unwrap_or_else(|why| {
        abort_with_error(
            rt,
            message::NO_MEMORY_FOR_REPLICAS,
            &std::io::Error::other(why),
        )
    });
    if !changed.is_empty() {
        abort_with_error(
            rt,
            message::REPLICA_NOT_REBUILT,
            &std::io::Error::other("memory has changed since it was restored"),
        );
    }
}

/// Leaves the rebuilds that the plan defers to the next checkpoint.
pub fn defer_replicas(rt: &Runtime, plan: &Plan, me: Worker) {
    let layers = |is_mine: fn(&ReplicaRebuild) -> Worker| {
        let own = plan
            .deferred
            .iter()
            .filter(|rebuild| is_mine(rebuild) == me);
        own.map(|rebuild| 1 << rebuild.layer).sum()
    };
    copies::defer(
        rt,
        [
            layers(|rebuild| rebuild.worker),
            layers(|rebuild| rebuild.at),
        ],
    );
}

/// Rebuilds replicas: their workers send them to the buddies.
pub fn rebuild_replicas(rt: &Runtime, rebuilds: &[ReplicaRebuild], me: Worker) -> mpi::Result<()> {
    if rebuilds.iter().any(|rebuild| rebuild.worker == me) {
        complete_own(rt);
    }
    let (keep, world) = (copies::replicas(rt), world::get(rt));
    let redundancy = &world.redundancy;
    let mut expected: Vec<&ReplicaRebuild> =
        rebuilds.iter().filter(|rebuild| rebuild.at == me).collect();
    expected.sort_unstable_by_key(|rebuild| rebuild.layer);
    let own = rebuilds.iter().filter(|rebuild| rebuild.worker == me);
    let own_plan = static_data::own_plan(rt);
    let reduced = own
        .clone()
        .map(|rebuild| (rebuild.at, &keep.own.image, own_plan.as_deref()));
    let from: Vec<Worker> = expected.iter().map(|rebuild| rebuild.worker).collect();
    let offers = static_data::exchange_omitted(rt, reduced.collect(), &from)?;
    drop((keep, own_plan));
    let mut moves: Vec<ReplicaTransfer> = expected
        .iter()
        .map(|rebuild| ReplicaTransfer::receive(rebuild.worker))
        .collect();
    for rebuild in own {
        moves.push(match redundancy.is_parity() {
            true => parity_reconstruction::send_contribution(rt, rebuild, redundancy.layers(me)),
            false => {
                let keep = copies::replicas(rt);
                ReplicaTransfer::send(Transfer::of(&keep.own, &keep.store), rebuild.at)
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
            parity_reconstruction::store_parity(rt, payloads);
            inventory(rt).add_layers(redundancy.all_layers(me));
        }
        return Ok(());
    }
    for ((it, rebuild), offer) in moves.iter_mut().zip(expected).zip(offers) {
        if let Some(payload) = it.transfer.take_received() {
            let keep = &mut *copies::replicas(rt);
            let copy = &mut keep.stored[rebuild.layer];
            payload
                .apply(copy, &mut keep.store)
                .unwrap_or_else(|error| abort_with_error(rt, message::REPLICA_NOT_STORED, &error));
            if let Some(offer) = offer {
                offer.mark_reduced(copy);
            }
            copies::share_equal_pages(rt, keep, rebuild.layer);
            inventory(rt).add_layers(1 << rebuild.layer);
        }
    }
    Ok(())
}
