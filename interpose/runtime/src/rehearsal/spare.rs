//! An idle spare's part: it takes scripts, has them rehearsed one after the other, and tells their workers.

use super::child::{Child, Finding, Task};
use super::message::Message;
use super::script::Script;
use super::{is_on, is_used};
use crate::cell::Main;
use crate::events;
use crate::own_messages::{Peer, tag};
use crate::real_types::RealComm;
use crate::requests::ANY_SOURCE;
use bincode::config::standard;
use ckptd::events::{Kind, Worker};
use std::time::Duration;

/// What a spare tells a worker: the numbers of pages that are not rebuilt, or that none are.
pub(super) type Proof = Option<Vec<u64>>;

#[derive(Default)]
struct State {
    incoming: Option<Message>,
    waiting: Vec<(u32, Script)>,
    child: Option<(u32, Script, Child)>,
    told: Vec<Message>,
}

static STATE: Main<Option<State>> = Main::new(None);

/// Goes on as far as possible.
pub fn poll(control: RealComm) {
    if !is_on() {
        return;
    }
    let state = STATE.get().get_or_insert_default();
    state.receive(control);
    if let Some((.., child)) = &mut state.child {
        if !child.is_done() {
            return;
        }
        if let Some((worker, script, child)) = state.child.take() {
            let finding = child.finding();
            tell_user(&script, &finding);
            if is_used() {
                state.tell(control, worker, finding);
            }
        }
    }
    if let Some((worker, script)) = state.waiting.pop() {
        let child = Child::start(&script, &Task::Compare);
        let child = child.inspect_err(|error| log::warn!("no rehearsal: {error}")).ok();
        state.child = child.map(|child| (worker, script, child));
    }
}

impl State {
    fn receive(&mut self, control: RealComm) {
        let Some(message) = &mut self.incoming else {
            self.incoming = Message::probe(control, ANY_SOURCE, tag::SCRIPT);
            return;
        };
        if message.test() == Ok(true)
            && let Some(message) = self.incoming.take()
            && let Ok((script, _)) = bincode::decode_from_slice(&message.bytes, standard())
        {
            self.waiting.insert(0, (message.from, script));
        }
    }

    fn tell(&mut self, control: RealComm, worker: u32, finding: Finding) {
        self.told.retain_mut(|message| message.test() == Ok(false));
        let proof: Proof = finding.failure.is_none().then_some(finding.different);
        let bytes = bincode::encode_to_vec(&proof, standard()).unwrap_or_default();
        let to = Peer {
            comm: control,
            rank: worker,
            tag: tag::PROOF,
        };
        self.told.extend(Message::send(bytes, to));
    }
}

fn tell_user(script: &Script, finding: &Finding) {
    let pages = script.page_count();
    log::info!(
        "rehearsal of worker {}: {} of {pages} pages differ, {:?} instead of {:?}{}",
        script.worker,
        finding.different.len(),
        finding.took,
        script.took,
        finding.failure.as_ref().map_or(String::new(), |why| format!("; {why}"))
    );
    events::emit(Kind::Rehearsal {
        worker: Worker(script.worker),
        journal: script.journal.len() as u64,
        pages,
        different: finding.different.len() as u64,
        places: finding.places.clone(),
        failure: finding.failure.clone(),
        replay_ns: finding.took.as_nanos() as u64,
        phase_ns: script.took.as_nanos() as u64,
    });
}

/// After a failure: everything under way ends. Returns how many messages have not ended within `limit`.
pub(super) fn quiesce(limit: Duration) -> usize {
    let Some(state) = STATE.get().take() else { return 0 };
    let incoming = state.incoming.map_or(0, |message| message.quiesce(true, limit));
    let told = state.told.into_iter().map(|message| message.quiesce(false, limit));
    incoming + told.sum::<usize>()
}
