//! Trial replays by a buddy, for the workers whose replicas it stores.
//!
//! The buddy replays one phase after the other, and sends each worker the result. Its own template
//! process runs the replays: like a later replacement, it belongs to another process than the
//! worker whose phase it replays.

use super::finding::{Proof, Rehearsed};
use super::message::Message;
use super::replay_settings::is_used;
use super::template::{Asked, Template};
use crate::own_messages::{Peer, tag};
use crate::world;
use crate::{events, fault, headroom};
use bincode::config::standard;
use understudy_formats::events::Kind;
use understudy_job::Runtime;
use understudy_numbers::{Epoch, Worker};

/// Trial replays that this buddy has to run or has run.
#[derive(Default)]
pub(super) struct Holder {
    incoming: Option<Message>,
    /// Encoded replay plans with their workers, in the order of arrival.
    waiting: Vec<(Worker, Vec<u8>)>,
    asked: Option<(Worker, Asked)>,
    told: Vec<Message>,
}

impl Holder {
    /// Makes progress as far as possible without waiting.
    pub(super) fn poll(&mut self, rt: &Runtime, template: &Template) {
        self.receive(rt);
        if let Some((worker, asked)) = &mut self.asked {
            let Some(rehearsed) = asked.rehearsed(template) else {
                return;
            };
            let (worker, rehearsed) = (*worker, rehearsed.unwrap_or_else(Rehearsed::none));
            self.asked = None;
            self.settle(rt, worker, rehearsed);
        }
        if !self.waiting.is_empty() {
            let (worker, script) = self.waiting.remove(0);
            // The replay needs at most as much memory as this process has.
            let [anonymous, _] = headroom::resident_memory();
            let room = headroom::check_room(rt, anonymous);
            match room.and_then(|()| template.rehearse(&script)) {
                Ok(asked) => self.asked = Some((worker, asked)),
                Err(why) => self.settle(rt, worker, Rehearsed::none(why)),
            }
        }
    }

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
        "trial replay of worker {worker}: {} of {pages} pages differ, {:?} instead of {took:?}{}",
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
