//! A holder's part: it has the phases of the workers whose copies it keeps rehearsed, one after the other, and tells them.
//!
//! Its own seed does that: a process of another worker than the one whose phase it is, as the one that takes its part will be.

use super::finding::{Proof, Rehearsed};
use super::is_used;
use super::message::Message;
use super::seed::{self, Asked};
use crate::own_messages::{Peer, tag};
use crate::rehearsal::Runtime;
use crate::{events, fault, headroom, world};
use bincode::config::standard;
use understudy_formats::events::Kind;
use understudy_numbers::{Epoch, Worker};

#[derive(Default)]
pub(super) struct State {
    incoming: Option<Message>,
    /// Scripts, each with its worker, in the order in which they have come.
    waiting: Vec<(Worker, Vec<u8>)>,
    asked: Option<(Worker, Asked)>,
    told: Vec<Message>,
}

/// Goes on as far as possible.
pub(super) fn poll(rt: &Runtime) {
    let mut state = rt.holder.borrow_mut();
    let state = state.get_or_insert_default();
    state.receive(rt);
    if let Some((worker, asked)) = &mut state.asked {
        let Some(rehearsed) = asked.rehearsed(rt) else {
            return;
        };
        let (worker, rehearsed) = (*worker, rehearsed.unwrap_or_else(Rehearsed::none));
        state.asked = None;
        state.settle(rt, worker, rehearsed);
    }
    if !state.waiting.is_empty() {
        let (worker, script) = state.waiting.remove(0);
        // The replay has what this process has, or less.
        let [anonymous, _] = headroom::resident_memory();
        let room = headroom::check_room(rt, anonymous);
        match room.and_then(|()| seed::rehearse(rt, &script)) {
            Ok(asked) => state.asked = Some((worker, asked)),
            Err(why) => state.settle(rt, worker, Rehearsed::none(why)),
        }
    }
}

impl State {
    fn receive(&mut self, rt: &Runtime) {
        let Some(message) = &mut self.incoming else {
            self.incoming = Message::probe(world::private(rt), None, tag::SCRIPT);
            return;
        };
        if message.test() == Ok(true)
            && let Some(message) = self.incoming.take()
        {
            self.waiting.push((message.from, message.bytes.to_vec()));
            fault::point("rehearse.begin", Epoch::NONE);
        }
    }

    fn settle(&mut self, rt: &Runtime, worker: Worker, rehearsed: Rehearsed) {
        fault::point("rehearse.end", Epoch::NONE);
        tell_user(worker, &rehearsed);
        if !is_used() {
            return;
        }
        let finding = rehearsed.finding;
        self.told.retain_mut(|message| message.test() == Ok(false));
        let proof: Proof = finding
            .failure
            .is_none()
            .then_some((finding.different, finding.inputs));
        let bytes = bincode::encode_to_vec(&proof, standard()).unwrap_or_default();
        let to = Peer {
            comm: world::private(rt),
            rank: worker,
            tag: tag::PROOF,
        };
        self.told.extend(Message::send(bytes, to));
    }
}

fn tell_user(worker: Worker, rehearsed: &Rehearsed) {
    let Rehearsed {
        finding,
        journal,
        pages,
        took,
    } = rehearsed;
    log::info!(
        "rehearsal of worker {worker}: {} of {pages} pages differ, {:?} instead of {took:?}{}",
        finding.different.len(),
        finding.took,
        finding
            .failure
            .as_ref()
            .map_or(String::new(), |why| format!("; {why}"))
    );
    events::emit(Kind::Rehearsal {
        worker,
        journal: *journal,
        pages: *pages,
        different: finding.different.len() as u64,
        places: finding.places.clone(),
        failure: finding.failure.clone(),
        replay_ns: finding.took.as_nanos() as u64,
        phase_ns: took.as_nanos() as u64,
    });
}

/// After a failure: everything under way is forgotten.
pub(super) fn interrupt(rt: &Runtime) {
    drop(rt.holder.take());
}
