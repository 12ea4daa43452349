//! Static data of a worker: trial, proof, and reduction of replicas.
//!
//! The worker sends its replay plan to a buddy for trial replays, and sends the proved plan to all
//! its buddies. It reduces the replicas that it stores for other workers.

use super::finding::Proof;
use super::message::Message;
use super::own_pages;
use super::own_script::{Own, WorkerState, tell_not_written};
use super::replay_settings::{is_used, spares_own};
use super::{base, decision};
use crate::Runtime;
use crate::copies::{Base, Replay, Script, Way, sums_of};
use crate::fault::{self, Harm};
use crate::journal::{self, Inputs, Phase};
use crate::own_messages::{Peer, tag};
use crate::{copies, disk, ending, events, marks, told, world};
use bincode::config::standard;
use std::cell::{Ref, RefMut};
use std::path::Path;
use std::time::Duration;
use understudy_catalogue::message;
use understudy_formats::events::{Kind, Worker};
use understudy_image::store::PageStore;
use understudy_image::{PAGE_SIZE, absent};
use understudy_numbers::Epoch;
use understudy_settings::Static;

fn state(rt: &Runtime) -> RefMut<'_, WorkerState> {
    RefMut::map(
        rt.rehearsal.worker.borrow_mut(),
        Option::get_or_insert_default,
    )
}

/// Makes progress as far as possible without waiting; called between checkpoints.
pub fn poll(rt: &Runtime) {
    if let Some(phase) = journal::take_ended(rt, copies::epoch(rt)) {
        state(rt).set_own(rt, phase);
        fault::point("phase.end", copies::epoch(rt));
    }
    let mut state = state(rt);
    state.end_withdrawn(copies::epoch(rt));
    state.look_after_file();
    decision::look(rt, matches!(state.own, Own::None));
    state.sent.retain_mut(|message| message.test() == Ok(false));
    state.ask(rt);
    if is_used() {
        state.take_proof(rt);
        state.tell_holders(rt);
        let come = state.scripts_that_have_come(rt);
        drop(state);
        for (layer, partner, bytes) in come {
            thin(rt, layer, partner, &bytes);
        }
        self::state(rt).thin_own(rt);
    }
}

/// Withdraws the replay plan at a cut if a file that it reads has changed.
///
/// The cut for this epoch gets all pages again.
pub(super) fn cut(rt: &Runtime, epoch: Epoch) {
    let changed = script(rt).and_then(|script| script.changed_input().map(Path::to_owned));
    let Some(path) = changed else { return };
    log::warn!("{}", message::static_file_changed(path.display()));
    let mut state = state(rt);
    let script = match std::mem::take(&mut state.own) {
        Own::Proved { script, .. } | Own::Withdrawn { script, .. } => Some(script),
        Own::None | Own::Writing { .. } | Own::Asked { .. } => state.before.take(),
    };
    let Some(script) = script else { return };
    copies::keep(rt)
        .tracker
        .capture_again(&absent::pages_of(&script.pages));
    state.own = Own::Withdrawn {
        script,
        until: epoch,
    };
}

/// Returns the stage after the end of a phase, if a replay plan is possible.
fn own_of(rt: &Runtime, phase: Phase) -> Option<Own> {
    let worker = world::worker(rt);
    let mut pages = {
        let keep = copies::keep(rt);
        let saved = copies::decode(&keep.own.state.bytes).ok()?;
        let mut pages = sums_of(
            &saved.user.layout,
            &keep.own.image,
            &keep.store,
            saved.frame.rsp,
        );
        pages.extend_from_slice(keep.own.image.absent());
        pages
    };
    pages.sort_unstable_by_key(|run| run.first);
    if told::config().static_data != Static::Disk {
        let way = Way::Replay(Box::new(replay_of(rt, phase)?));
        let script = Script { worker, way, pages };
        return Some(Own::Asked {
            script,
            is_sent: false,
        });
    }
    let way = Way::File(disk::static_path(rt, worker)?);
    let script = Script { worker, way, pages };
    let keep = copies::keep(rt);
    match disk::write_static(rt, worker, &keep.own.image, &keep.store) {
        Ok(writing) => Some(Own::Writing { script, writing }),
        Err(error) => {
            tell_not_written(&error);
            None
        }
    }
}

/// Returns the replay of a phase, if its journal is short enough.
fn replay_of(rt: &Runtime, mut phase: Phase) -> Option<Replay> {
    if !phase.records {
        return None;
    }
    let keep = copies::keep(rt);
    let journal = phase.recorder.journal();
    let (calls, size) = (journal.calls, journal.size());
    let base = base::take(rt);
    if base.is_none() && phase.base.is_some() {
        return None;
    }
    let size = size + base.as_ref().map_or(0, Base::size);
    let absent: u64 = keep
        .own
        .image
        .absent()
        .iter()
        .map(|run| run.pages().pages)
        .sum();
    let image = (keep.own.image.page_count() + absent) as usize * PAGE_SIZE;
    let limit = told::config().log_limit.of(image);
    if size > limit {
        journal::tell_too_long(rt, size, limit);
        phase.recorder.tell(rt, None);
        return None;
    }
    let bytes = journal.encode();
    phase.recorder.tell(rt, Some(bytes.len()));
    let took = phase.took
        + base
            .as_ref()
            .map_or(Duration::ZERO, |base| base.before.took);
    log::info!(
        "{calls} calls recorded in {took:?}: {size} bytes, {} compressed",
        bytes.len()
    );
    let bytes_kept = bytes.len() + base.as_ref().map_or(0, Base::size);
    Some(Replay {
        journal: bytes,
        begin: phase.begin,
        end: phase.end?,
        took,
        inputs: Inputs::with_room(limit.saturating_sub(bytes_kept) as u64),
        base,
    })
}

impl WorkerState {
    /// Handles the end of a phase.
    ///
    /// The proved plan of the phase before stays valid until a plan of this phase is proved.
    fn set_own(&mut self, rt: &Runtime, phase: Phase) {
        let is_new = phase.base.is_some();
        match (own_of(rt, phase), std::mem::take(&mut self.own)) {
            (None, before) if is_new => self.own = before,
            (new, Own::Proved { script, .. }) => {
                self.before = Some(script);
                self.own = new.unwrap_or_default();
            }
            (new, _) => self.own = new.unwrap_or_default(),
        }
    }

    /// Sends the replay plan to a buddy for trial replays.
    fn ask(&mut self, rt: &Runtime) {
        let Own::Asked { script, is_sent } = &mut self.own else {
            return;
        };
        if std::mem::replace(is_sent, true) {
            return;
        }
        let Ok(bytes) = bincode::encode_to_vec(&*script, standard()) else {
            return;
        };
        let to = Peer {
            comm: world::private(rt),
            rank: rehearser(rt),
            tag: tag::SCRIPT,
        };
        self.sent.extend(Message::send(bytes, to));
    }

    fn take_proof(&mut self, rt: &Runtime) {
        if !matches!(self.own, Own::Asked { is_sent: true, .. }) {
            return;
        }
        let Some(message) = &mut self.proof else {
            self.proof = Message::probe(world::private(rt), Some(rehearser(rt)), tag::PROOF);
            return;
        };
        if message.test() != Ok(true) {
            return;
        }
        let Some(message) = self.proof.take() else {
            return;
        };
        let proof: Proof = match bincode::decode_from_slice(&message.bytes, standard()) {
            Ok((proof, _)) => proof,
            Err(_) => None,
        };
        let Own::Asked { mut script, .. } = std::mem::take(&mut self.own) else {
            return;
        };
        let proof = proof.map(|(different, inputs)| {
            script.set_inputs(inputs);
            different
        });
        let Some(before) = &self.before else {
            if decision::accept(rt, &script, proof.as_deref())
                && let Some(different) = proof
            {
                self.own = Own::proved(script.without(&different));
            }
            return;
        };
        // Replicas omit pages that the new plan must also make.
        match proof {
            None => self.go_back("the trial replay has failed"),
            Some(different) if script.shares(before, &different) => {
                self.go_back("the trial replay has not rebuilt all that replicas lack");
            }
            Some(different) => {
                self.own = Own::proved(script.without(&different));
                self.before = None;
            }
        }
    }

    fn tell_holders(&mut self, rt: &Runtime) {
        let Own::Proved {
            script, is_told, ..
        } = &mut self.own
        else {
            return;
        };
        if std::mem::replace(is_told, true) {
            return;
        }
        let Ok(bytes) = bincode::encode_to_vec(&*script, standard()) else {
            return;
        };
        let world = world::get(rt);
        for rank in world.redundancy.holders_of(world::worker(rt)) {
            let to = Peer {
                comm: world.private,
                rank,
                tag: tag::STATIC,
            };
            self.sent.extend(Message::send(bytes.clone(), to));
        }
    }

    /// Reduces this worker's own replica by the pages that its template process can make.
    ///
    /// If the template process has ended, the pages are stored again.
    fn thin_own(&mut self, rt: &Runtime) {
        let Own::Proved {
            script, is_thin, ..
        } = &mut self.own
        else {
            return;
        };
        let keep = &mut *copies::keep(rt);
        let lives = matches!(script.way, Way::File(_)) || rt.rehearsal.seed.lives();
        let (image, store) = (&mut keep.own.image, &mut keep.store);
        if lives && spares_own() && !std::mem::replace(is_thin, true) {
            let before = image.page_count();
            image.leave_out(&script.pages, store);
            let left = image.page_count();
            give_back(store);
            let pages = before - left;
            if pages == 0 {
                return;
            }
            log::info!("the own replica is without {pages} of {before} pages");
            events::emit(Kind::OwnThinned { pages, left });
        }
        if lives {
            return;
        }
        let absent = absent::without(image.absent(), &marks::lasting(rt).reversible_pages());
        if !absent.is_empty() {
            log::warn!("{}", message::REPLAY_PROCESS_ENDED);
            // Changed pages are part of the next checkpoint; until then they are lost.
            let kept = own_pages::keep_unchanged(&absent, image, store);
            kept.unwrap_or_else(|why| {
                ending::fail(
                    rt,
                    message::NO_MEMORY_FOR_REPLICAS,
                    &std::io::Error::other(why),
                )
            });
        }
    }

    /// Returns the received plans of other workers: layer, worker, and encoded plan.
    fn scripts_that_have_come(&mut self, rt: &Runtime) -> Vec<(usize, Worker, Vec<u8>)> {
        let world = world::get(rt);
        let partners: Vec<Worker> = world.redundancy.partners_of(world::worker(rt)).collect();
        for (layer, &partner) in partners.iter().enumerate() {
            if self.scripts.iter().any(|(waiting, _)| *waiting == layer) {
                continue;
            }
            let message = Message::probe(world.private, Some(partner), tag::STATIC);
            self.scripts.extend(message.map(|message| (layer, message)));
        }
        let come = self
            .scripts
            .extract_if(.., |(_, message)| message.test() == Ok(true));
        come.map(|(layer, message)| (layer, partners[layer], message.bytes.to_vec()))
            .collect()
    }
}

/// Returns the worker that runs the trial replays of this worker's phase.
///
/// It is another worker if there is one: a replay by this process could rely on state that only
/// this process has.
fn rehearser(rt: &Runtime) -> Worker {
    let me = world::worker(rt);
    world::get(rt)
        .redundancy
        .holders_of(me)
        .next()
        .unwrap_or(me)
}

/// Reduces the stored replica of another worker by the pages that a replay rebuilds.
fn thin(rt: &Runtime, layer: usize, partner: Worker, bytes: &[u8]) {
    let Ok((script, _)) = bincode::decode_from_slice::<Script, _>(bytes, standard()) else {
        return;
    };
    if script.worker != partner {
        return;
    }
    fault::point("thin.begin", copies::epoch(rt));
    let mut guard = copies::keep(rt);
    let keep = &mut *guard;
    let copy = &mut keep.partners[layer];
    let before = copy.image.page_count();
    copy.image.leave_out(&script.pages, &mut keep.store);
    let (pages, journal) = (before - copy.image.page_count(), script.journal());
    copy.script = Some(script);
    if pages == 0 {
        return;
    }
    give_back(&mut keep.store);
    drop(guard);
    log::info!(
        "the replica of worker {} is without {pages} of {before} pages, which can be rebuilt",
        partner
    );
    events::emit(Kind::Thinned {
        worker: partner,
        pages,
        left: before - pages,
        journal,
    });
    fault::point("thin.end", copies::epoch(rt));
}

/// Damages every journal that this process has, for tests.
pub fn damage_journals<'a>(
    rt: &Runtime,
    scripts: impl Iterator<Item = &'a mut Script>,
    harm: Harm,
) {
    scripts.for_each(|script| script.damage(harm));
    if let Own::Asked { script, .. } | Own::Proved { script, .. } | Own::Withdrawn { script, .. } =
        &mut state(rt).own
    {
        script.damage(harm);
    }
}

/// Gives memory of replicas back to the system.
fn give_back(store: &mut PageStore) {
    if let Err(error) = store.give_back(0) {
        log::info!("the memory of static data is not freed: {error}");
    }
}

/// Returns the replay plan by which this worker's static data are rebuilt.
pub fn script(rt: &Runtime) -> Option<Ref<'_, Script>> {
    Ref::filter_map(rt.rehearsal.worker.borrow(), |state| {
        state.as_ref()?.script()
    })
    .ok()
}

/// True if a phase has ended of which no page is proved yet.
pub fn is_waiting(rt: &Runtime) -> bool {
    matches!(state(rt).own, Own::Writing { .. } | Own::Asked { .. })
}

/// Stores the proved replay plan of the worker from which this process takes over.
pub fn keep(rt: &Runtime, script: Script) {
    state(rt).own = Own::proved(script);
}

/// Drops messages after a failure; those that were in flight are resent.
pub(super) fn interrupt(rt: &Runtime) {
    if let Some(state) = &mut *rt.rehearsal.worker.borrow_mut() {
        state.interrupt();
    }
}
