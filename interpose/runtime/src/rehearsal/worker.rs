//! A worker's part: it has its phase rehearsed, tells the holders of its copies what is proved, and thins the copies that it
//! holds.

use super::message::Message;
use super::script::{Script, sums_of};
use super::spare::Proof;
use super::thin::Thin;
use super::{is_on, is_used};
use crate::cell::Main;
use crate::fault::{self, Harm};
use crate::image::PAGE_SIZE;
use crate::journal::{self, Phase};
use crate::own_messages::{Peer, tag};
use crate::{boot, checkpoint, events, world};
use bincode::config::standard;
use ckptd::events::{Kind, Worker};
use std::ffi::c_int;
use std::time::Duration;

/// How far this worker's script is.
#[derive(Default)]
enum Own {
    /// There is none.
    #[default]
    None,
    /// A spare has it, or is to get it.
    Asked { script: Script, is_sent: bool },
    /// What is in it is proved; the holders have been told, or not.
    Proved { script: Script, is_told: bool },
}

#[derive(Default)]
struct State {
    own: Own,
    sent: Vec<Message>,
    proof: Option<Message>,
    /// What partners have sent, by layer.
    scripts: Vec<(usize, Message)>,
}

static STATE: Main<Option<State>> = Main::new(None);

fn state() -> &'static mut State {
    STATE.get().get_or_insert_default()
}

/// Goes on as far as possible. Called between checkpoints.
pub fn poll() {
    if !is_on() {
        return;
    }
    if let Some(phase) = journal::take_ended(checkpoint::epoch())
        && let Some(script) = script(phase)
    {
        state().own = Own::Asked { script, is_sent: false };
        fault::point("phase.end", checkpoint::epoch());
    }
    let state = state();
    state.sent.retain_mut(|message| message.test() == Ok(false));
    state.ask();
    if is_used() {
        state.take_proof();
        state.tell_holders();
        state.thin_copies();
    }
}

/// The script of a phase that has ended, if it is worth it.
fn script(mut phase: Phase) -> Option<Script> {
    let keep = checkpoint::keep();
    let saved = checkpoint::decode(&keep.own.state.bytes).ok()?;
    let journal = phase.recorder.journal();
    let (calls, size) = (journal.calls, journal.size());
    let image = keep.own.image.page_count() as usize * PAGE_SIZE;
    let limit = boot::config().log_limit.of(image);
    if size > limit {
        journal::tell_too_long(size, limit);
        return None;
    }
    let bytes = journal.encode();
    let took = phase.took;
    log::info!(
        "{calls} calls recorded in {took:?}: {size} bytes, {} compressed",
        bytes.len()
    );
    Some(Script {
        worker: world::worker(),
        journal: bytes,
        begin: phase.begin,
        end: journal::call_hash(&saved.frame)?,
        took,
        pages: sums_of(&saved.user.layout, &keep.own.image, &keep.store, saved.frame.rsp),
    })
}

impl State {
    /// Sends the script to a spare, if one is idle.
    fn ask(&mut self) {
        let Own::Asked { script, is_sent } = &mut self.own else {
            return;
        };
        if *is_sent {
            return;
        }
        *is_sent = true;
        let world = world::get();
        let is_spare = |rank: &&u32| **rank >= world.worker_count && !world.players.contains(rank);
        let spares: Vec<u32> = world.living.iter().filter(is_spare).copied().collect();
        let chosen = spares.get(script.worker as usize % spares.len().max(1));
        // The living are in the same order in `control`.
        let rank = chosen.and_then(|spare| world.living.iter().position(|living| living == spare));
        let bytes = bincode::encode_to_vec(&*script, standard());
        let (Some(rank), Ok(bytes)) = (rank, bytes) else { return };
        let to = Peer {
            comm: world.control,
            rank: rank as u32,
            tag: tag::SCRIPT,
        };
        self.sent.extend(Message::send(bytes, to));
    }

    fn take_proof(&mut self) {
        if !matches!(self.own, Own::Asked { is_sent: true, .. }) {
            return;
        }
        let Some(message) = &mut self.proof else {
            self.proof = Message::probe(world::get().control, crate::requests::ANY_SOURCE, tag::PROOF);
            return;
        };
        if message.test() != Ok(true) {
            return;
        }
        let proof = self
            .proof
            .take()
            .map(|message| bincode::decode_from_slice(&message.bytes, standard()));
        let Own::Asked { script, .. } = std::mem::take(&mut self.own) else {
            return;
        };
        if let Some(Ok((Proof::Some(different), _))) = proof {
            let script = script.without(&different);
            self.own = Own::Proved { script, is_told: false };
        }
    }

    fn tell_holders(&mut self) {
        let Own::Proved { script, is_told } = &mut self.own else {
            return;
        };
        if std::mem::replace(is_told, true) {
            return;
        }
        let Ok(bytes) = bincode::encode_to_vec(&*script, standard()) else {
            return;
        };
        let world = world::get();
        for rank in world.redundancy.holders_of(world::worker()) {
            let to = Peer {
                comm: world.private,
                rank,
                tag: tag::STATIC,
            };
            self.sent.extend(Message::send(bytes.clone(), to));
        }
    }

    fn thin_copies(&mut self) {
        let world = world::get();
        let partners: Vec<u32> = world.redundancy.partners_of(world::worker()).collect();
        for (layer, &partner) in partners.iter().enumerate() {
            if self.scripts.iter().any(|(waiting, _)| *waiting == layer) {
                continue;
            }
            let message = Message::probe(world.private, partner as c_int, tag::STATIC);
            self.scripts.extend(message.map(|message| (layer, message)));
        }
        self.scripts.retain_mut(|(layer, message)| {
            let has_come = message.test() == Ok(true);
            if has_come {
                thin(*layer, partners[*layer], &message.bytes);
            }
            !has_come
        });
    }
}

fn thin(layer: usize, partner: u32, bytes: &[u8]) {
    let keep = checkpoint::keep();
    let copy = &mut keep.partners[layer];
    let Ok((script, _)) = bincode::decode_from_slice::<Script, _>(bytes, standard()) else {
        return;
    };
    if copy.thin.is_some() || script.worker != partner {
        return;
    }
    fault::point("thin.begin", checkpoint::epoch());
    let before = copy.image.page_count();
    let thin = Thin::of(&mut copy.image, script, &mut keep.store);
    if let Err(error) = keep.store.give_back(0) {
        log::info!("the memory of static data is not given back: {error}");
    }
    let (pages, journal) = (before - copy.image.page_count(), thin.script.journal.len() as u64);
    copy.thin = Some(thin);
    log::info!("the copy of worker {partner} is without {pages} of {before} pages, which can be rebuilt");
    events::emit(Kind::Thinned {
        worker: Worker(partner),
        pages,
        left: before - pages,
        journal,
    });
    fault::point("thin.end", checkpoint::epoch());
}

/// For tests: damages every journal that this process has.
pub fn damage_journals<'a>(thin: impl Iterator<Item = &'a mut Thin>, harm: Harm) {
    thin.for_each(|thin| thin.script.damage(harm));
    if let Own::Asked { script, .. } | Own::Proved { script, .. } = &mut state().own {
        script.damage(harm);
    }
}

/// This process plays the part of the worker whose phase this is.
pub fn keep(script: Script) {
    state().own = Own::Proved { script, is_told: false };
}

/// After a failure: messages end. What was on its way is sent again. Returns how many have not ended within `limit`.
pub(super) fn quiesce(limit: Duration) -> usize {
    let Some(state) = STATE.get() else { return 0 };
    match &mut state.own {
        Own::None => {}
        Own::Asked { is_sent, .. } => *is_sent = false,
        Own::Proved { is_told, .. } => *is_told = false,
    }
    let sent = state
        .sent
        .drain(..)
        .map(|message| message.quiesce(false, limit))
        .sum::<usize>();
    let proof = state.proof.take().map_or(0, |message| message.quiesce(true, limit));
    let scripts = state.scripts.drain(..).map(|(_, message)| message.quiesce(true, limit));
    sent + proof + scripts.sum::<usize>()
}
