//! Static data of a worker: trial, proof, and reduction of replicas.
//!
//! The worker sends its replay plan to a buddy for trial replays, and sends the proved plan to all
//! its buddies. As a buddy, it receives the proved plans of the workers whose replicas it stores,
//! and reduces these replicas.

use super::finding::StaticDataProof;
use super::own_pages;
use super::own_plan::{OwnPlan, ReplayPlans, log_not_written};
use super::replay_settings::{omits_own_static_data, omits_static_data};
use super::{decision, replay_base};
use crate::Runtime;
use crate::control_messages::{InFlight, Peer, tag};
use crate::copies::{PageSource, ReplayBase, ReplayPlan, ReplayedPhase, page_sums};
use crate::fault::{self, Damage};
use crate::journal::{self, Inputs, RecordedPhase};
use crate::{abort, annotations, copies, disk, events, process_info, world};
use bincode::config::standard;
use std::cell::{Ref, RefMut};
use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::events::{Kind, Worker};
use understudy_image::store::PageStore;
use understudy_image::{PAGE_SIZE, absent_pages};
use understudy_numbers::Epoch;
use understudy_settings::StaticData;

fn state(rt: &Runtime) -> RefMut<'_, ReplayPlans> {
    RefMut::map(
        rt.static_data.plans.borrow_mut(),
        Option::get_or_insert_default,
    )
}

/// Makes progress as far as possible without waiting; called between checkpoints.
pub fn poll(rt: &Runtime) {
    if let Some(phase) = journal::take_ended(rt, copies::committed_epoch(rt)) {
        state(rt).set_own(rt, phase);
        fault::point("phase.end", copies::committed_epoch(rt));
    }
    let mut state = state(rt);
    state.end_withdrawn(copies::committed_epoch(rt));
    state.poll_file();
    decision::check_possible(rt, !matches!(state.own, OwnPlan::None));
    // A failure is detected by the next MPI call that is checked.
    let _ = state.sent.remove_sent();
    state.send_for_trial(rt);
    if omits_static_data() {
        state.take_proof(rt);
        state.send_to_buddies(rt);
        let arrived = state.received_plans(rt);
        drop(state);
        for (layer, owner, bytes) in arrived {
            reduce_stored(rt, layer, owner, &bytes);
        }
        self::state(rt).reduce_own(rt);
    }
}

/// Withdraws the replay plan at a cut if an input file has changed.
///
/// The checkpoint of this epoch contains all pages.
pub(super) fn cut(rt: &Runtime, epoch: Epoch) {
    let changed = plan(rt).and_then(|plan| plan.changed_input().map(Path::to_owned));
    let Some(path) = changed else { return };
    log::warn!("{}", message::static_file_changed(path.display()));
    let mut state = state(rt);
    let plan = match std::mem::take(&mut state.own) {
        OwnPlan::Proved { plan, .. } | OwnPlan::Withdrawn { plan, .. } => Some(plan),
        OwnPlan::None | OwnPlan::Writing { .. } | OwnPlan::InTrial { .. } => state.before.take(),
    };
    let Some(plan) = plan else { return };
    copies::replicas(rt)
        .tracker
        .force_capture(&absent_pages::pages_of(&plan.pages));
    state.own = OwnPlan::Withdrawn { plan, until: epoch };
}

/// Returns the stage of the plan for an ended phase, if one is possible.
fn stage_of_ended_phase(rt: &Runtime, phase: RecordedPhase) -> Option<OwnPlan> {
    let worker = world::worker(rt);
    let mut pages = {
        let replicas = copies::replicas(rt);
        let saved = copies::decode(&replicas.own.state.bytes).ok()?;
        let mut pages = page_sums(
            &saved.user.layout,
            &replicas.own.image,
            &replicas.store,
            saved.frame.rsp,
        );
        pages.extend_from_slice(replicas.own.image.absent());
        pages
    };
    pages.sort_unstable_by_key(|run| run.first);
    if process_info::config().static_data != StaticData::Disk {
        let source = PageSource::Replay(Box::new(replay_of(rt, phase)?));
        let plan = ReplayPlan {
            worker,
            source,
            pages,
        };
        return Some(OwnPlan::InTrial {
            plan,
            is_sent: false,
        });
    }
    let source = PageSource::File(disk::static_path(rt, worker)?);
    let plan = ReplayPlan {
        worker,
        source,
        pages,
    };
    let replicas = copies::replicas(rt);
    match disk::write_static(rt, worker, &replicas.own.image, &replicas.store) {
        Ok(writing) => Some(OwnPlan::Writing { plan, writing }),
        Err(error) => {
            log_not_written(&error);
            None
        }
    }
}

/// Returns the replay of a phase, if its journal is short enough.
fn replay_of(rt: &Runtime, mut phase: RecordedPhase) -> Option<ReplayedPhase> {
    if !phase.records {
        return None;
    }
    let replicas = copies::replicas(rt);
    let journal = phase.recorder.journal();
    let (calls, size) = (journal.calls, journal.size());
    let base = replay_base::take(rt);
    if base.is_none() && phase.base.is_some() {
        return None;
    }
    let size = size + base.as_ref().map_or(0, ReplayBase::size);
    let absent: u64 = replicas
        .own
        .image
        .absent()
        .iter()
        .map(|run| run.pages().pages)
        .sum();
    let image = (replicas.own.image.page_count() + absent) as usize * PAGE_SIZE;
    let limit = process_info::config().journal_limit.of(image);
    if size > limit {
        journal::report_too_long(rt, size, limit);
        phase.recorder.report_sizes(rt, None);
        return None;
    }
    let bytes = journal.encode();
    phase.recorder.report_sizes(rt, Some(bytes.len()));
    let took = phase.duration
        + base
            .as_ref()
            .map_or(Duration::ZERO, |base| base.before.duration);
    log::info!(
        "{calls} calls recorded in {took:?}: {size} bytes, {} compressed",
        bytes.len()
    );
    let plan_bytes = bytes.len() + base.as_ref().map_or(0, ReplayBase::size);
    Some(ReplayedPhase {
        journal: bytes,
        begin: phase.begin,
        end: phase.end?,
        duration: took,
        inputs: Inputs::with_room(limit.saturating_sub(plan_bytes) as u64),
        base,
    })
}

impl ReplayPlans {
    /// Handles the end of a phase.
    ///
    /// The proved plan of the phase before stays valid until a plan of this phase is proved.
    fn set_own(&mut self, rt: &Runtime, phase: RecordedPhase) {
        let is_new = phase.base.is_some();
        match (
            stage_of_ended_phase(rt, phase),
            std::mem::take(&mut self.own),
        ) {
            (None, before) if is_new => self.own = before,
            (new, OwnPlan::Proved { plan, .. }) => {
                self.before = Some(plan);
                self.own = new.unwrap_or_default();
            }
            (new, _) => self.own = new.unwrap_or_default(),
        }
    }

    /// Sends the replay plan to a buddy for trial replays.
    fn send_for_trial(&mut self, rt: &Runtime) {
        let OwnPlan::InTrial { plan, is_sent } = &mut self.own else {
            return;
        };
        if std::mem::replace(is_sent, true) {
            return;
        }
        let Ok(bytes) = bincode::encode_to_vec(&*plan, standard()) else {
            return;
        };
        let to = Peer {
            comm: world::private(rt),
            rank: trial_worker(rt),
            tag: tag::REPLAY_PLAN,
        };
        let _ = self.sent.send(bytes, [to]);
    }

    fn take_proof(&mut self, rt: &Runtime) {
        if !matches!(self.own, OwnPlan::InTrial { is_sent: true, .. }) {
            return;
        }
        let Some(message) = &mut self.proof else {
            self.proof = receive_arrived(rt, trial_worker(rt), tag::PROOF);
            return;
        };
        let Ok(Some(bytes)) = message.poll() else {
            return;
        };
        self.proof = None;
        let proof: StaticDataProof = match bincode::decode_from_slice(&bytes, standard()) {
            Ok((proof, _)) => proof,
            Err(_) => None,
        };
        let OwnPlan::InTrial { mut plan, .. } = std::mem::take(&mut self.own) else {
            return;
        };
        let proof = proof.map(|(different, inputs)| {
            plan.set_inputs(inputs);
            different
        });
        let Some(before) = &self.before else {
            if decision::decide_on_trial(rt, &plan, proof.as_deref())
                && let Some(different) = proof
            {
                self.own = OwnPlan::proved(plan.without_pages(&different));
            }
            return;
        };
        // Replicas omit pages of the earlier plan, so the new plan must rebuild these pages, too.
        match proof {
            None => self.return_to_earlier_plan("the trial replay has failed"),
            Some(different) if plan.has_equal_page(before, &different) => {
                self.return_to_earlier_plan(
                    "the trial replay has not rebuilt all pages that replicas omit",
                );
            }
            Some(different) => {
                self.own = OwnPlan::proved(plan.without_pages(&different));
                self.before = None;
            }
        }
    }

    fn send_to_buddies(&mut self, rt: &Runtime) {
        let OwnPlan::Proved {
            plan,
            is_sent_to_buddies,
            ..
        } = &mut self.own
        else {
            return;
        };
        if std::mem::replace(is_sent_to_buddies, true) {
            return;
        }
        let Ok(bytes) = bincode::encode_to_vec(&*plan, standard()) else {
            return;
        };
        let world = world::get(rt);
        let buddies = world.redundancy.buddies_of(world::worker(rt));
        let to = buddies.map(|rank| Peer {
            comm: world.private,
            rank,
            tag: tag::STATIC,
        });
        let _ = self.sent.send(bytes, to);
    }

    /// Reduces this worker's own replica by the pages that its template process can rebuild.
    ///
    /// Copies the pages back into the replica if the template process has ended.
    fn reduce_own(&mut self, rt: &Runtime) {
        let OwnPlan::Proved {
            plan,
            is_own_reduced,
            ..
        } = &mut self.own
        else {
            return;
        };
        let replicas = &mut *copies::replicas(rt);
        let can_rebuild =
            matches!(plan.source, PageSource::File(_)) || rt.static_data.template.check_alive();
        let (image, store) = (&mut replicas.own.image, &mut replicas.store);
        if can_rebuild && omits_own_static_data() && !std::mem::replace(is_own_reduced, true) {
            let before = image.page_count();
            image.elide_equal(&plan.pages, store);
            let left = image.page_count();
            release_memory(store);
            let pages = before - left;
            if pages == 0 {
                return;
            }
            log::info!("the own replica is without {pages} of {before} pages");
            events::emit(Kind::OwnReplicaReduced { pages, left });
        }
        if can_rebuild {
            return;
        }
        let absent = absent_pages::without(
            image.absent(),
            &annotations::saved_annotations(rt).reversible_pages(),
        );
        if !absent.is_empty() {
            log::warn!("{}", message::REPLAY_PROCESS_ENDED);
            // Pages that have changed since the epoch are lost until the next checkpoint contains
            // them.
            let stored = own_pages::store_unchanged(&absent, image, store);
            stored.unwrap_or_else(|why| {
                abort::abort_with_error(
                    rt,
                    message::NO_MEMORY_FOR_REPLICAS,
                    &std::io::Error::other(why),
                )
            });
        }
    }

    /// Returns the received plans of other workers: layer, worker, and encoded plan.
    fn received_plans(&mut self, rt: &Runtime) -> Vec<(usize, Worker, Vec<u8>)> {
        let world = world::get(rt);
        let owners: Vec<Worker> = world.redundancy.owners_at(world::worker(rt)).collect();
        for (layer, &owner) in owners.iter().enumerate() {
            if self
                .incoming_plans
                .iter()
                .any(|(waiting, _)| *waiting == layer)
            {
                continue;
            }
            let message = receive_arrived(rt, owner, tag::STATIC);
            self.incoming_plans
                .extend(message.map(|message| (layer, message)));
        }
        let mut received = Vec::new();
        self.incoming_plans.retain_mut(|(layer, message)| {
            let Ok(Some(bytes)) = message.poll() else {
                return true;
            };
            received.push((*layer, owners[*layer], bytes));
            false
        });
        received
    }
}

/// Posts the receive of a message that has arrived from a worker.
///
/// A failure is detected by the next MPI call that is checked.
fn receive_arrived(rt: &Runtime, from: Worker, tag: c_int) -> Option<InFlight<Vec<u8>>> {
    let arrived = InFlight::receive_arrived(world::private(rt), Some(from), tag);
    arrived.ok().flatten().map(|(_, message)| message)
}

/// Returns the worker that runs the trial replays of this worker's phase.
///
/// Selects a buddy if there is one: a replay by this process could rely on state that only this
/// process has.
fn trial_worker(rt: &Runtime) -> Worker {
    let me = world::worker(rt);
    world::get(rt)
        .redundancy
        .buddies_of(me)
        .next()
        .unwrap_or(me)
}

/// Reduces the stored replica of another worker by the pages that a replay rebuilds.
fn reduce_stored(rt: &Runtime, layer: usize, owner: Worker, bytes: &[u8]) {
    let Ok((plan, _)) = bincode::decode_from_slice::<ReplayPlan, _>(bytes, standard()) else {
        return;
    };
    if plan.worker != owner {
        return;
    }
    fault::point("thin.begin", copies::committed_epoch(rt));
    let mut guard = copies::replicas(rt);
    let replicas = &mut *guard;
    let copy = &mut replicas.stored[layer];
    let before = copy.image.page_count();
    copy.image.elide_equal(&plan.pages, &mut replicas.store);
    let (pages, journal) = (before - copy.image.page_count(), plan.journal_bytes());
    copy.replay_plan = Some(plan);
    if pages == 0 {
        return;
    }
    release_memory(&mut replicas.store);
    drop(guard);
    log::info!(
        "the replica of worker {} is without {pages} of {before} pages, which can be rebuilt",
        owner
    );
    events::emit(Kind::ReplicaReduced {
        worker: owner,
        pages,
        left: before - pages,
        journal,
    });
    fault::point("thin.end", copies::committed_epoch(rt));
}

/// Damages the journals of these plans and of this worker's plan, for tests.
pub fn damage_journals<'a>(
    rt: &Runtime,
    plans: impl Iterator<Item = &'a mut ReplayPlan>,
    damage: Damage,
) {
    plans.for_each(|plan| plan.damage(damage));
    if let OwnPlan::InTrial { plan, .. }
    | OwnPlan::Proved { plan, .. }
    | OwnPlan::Withdrawn { plan, .. } = &mut state(rt).own
    {
        plan.damage(damage);
    }
}

/// Gives memory of replicas back to the system.
fn release_memory(store: &mut PageStore) {
    if let Err(error) = store.give_back(0) {
        log::info!("the memory of static data is not freed: {error}");
    }
}

/// Returns the replay plan by which this worker's static data are rebuilt.
pub fn plan(rt: &Runtime) -> Option<Ref<'_, ReplayPlan>> {
    Ref::filter_map(rt.static_data.plans.borrow(), |state| {
        state.as_ref()?.plan()
    })
    .ok()
}

/// True if the plan of a phase that has ended is not proved yet.
pub fn is_waiting(rt: &Runtime) -> bool {
    matches!(
        state(rt).own,
        OwnPlan::Writing { .. } | OwnPlan::InTrial { .. }
    )
}

/// Stores the proved replay plan of the worker from which this process takes over.
pub fn store_plan(rt: &Runtime, plan: ReplayPlan) {
    state(rt).own = OwnPlan::proved(plan);
}

/// Drops messages after a failure, so that this worker's plan is sent again.
pub(super) fn interrupt(rt: &Runtime) {
    if let Some(state) = &mut *rt.static_data.plans.borrow_mut() {
        state.interrupt();
    }
}
