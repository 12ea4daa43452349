//! An idle spare's part: it takes scripts, has them rehearsed one after the other, and tells their workers.
#![allow(unsafe_code)]

use super::child::{Child, Finding, Task};
use super::script::Script;
use super::{is_on, is_used};
use crate::cell::Main;
use crate::errors::SUCCESS;
use crate::events;
use crate::generated::real;
use crate::handles;
use crate::own_messages::{self, Peer, tag};
use crate::real_types::{RealComm, RealRequest, Status};
use crate::requests::{ANY_SOURCE, EMPTY};
use bincode::config::standard;
use ckptd::events::{Kind, Worker};
use std::ffi::c_int;
use std::time::Duration;

/// A message on its way, with its memory.
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    requests: Vec<RealRequest>,
    pub(super) from: u32,
}

impl Message {
    /// Sends bytes.
    pub(super) fn send(bytes: Vec<u8>, to: Peer) -> Option<Message> {
        let mut requests = Vec::new();
        c_int::try_from(bytes.len()).ok()?;
        // SAFETY: the bytes stay beside the request.
        let rc = unsafe { own_messages::send(bytes.as_ptr().cast(), bytes.len(), to, &mut requests) };
        let from = to.rank;
        (rc == SUCCESS).then_some(Message { bytes, requests, from })
    }

    /// Posts the receive of a message of this length.
    pub(super) fn receive(length: usize, from: Peer) -> Option<Message> {
        let (mut bytes, mut requests) = (vec![0u8; length], Vec::new());
        // SAFETY: as above.
        let rc = unsafe { own_messages::receive(bytes.as_mut_ptr().cast(), length, from, &mut requests) };
        let from = from.rank;
        (rc == SUCCESS).then_some(Message { bytes, requests, from })
    }

    /// Posts the receive of a message that has come, if one has.
    pub(super) fn probe(comm: RealComm, source: c_int, tag: c_int) -> Option<Message> {
        let (mut flag, mut status, mut length) = (0, EMPTY, 0);
        let status: &mut Status = &mut status;
        // SAFETY: a probe on a communicator of ours, and the length of a message of bytes.
        unsafe {
            let rc = real::PMPI_Iprobe(source, tag, comm, &mut flag, status);
            if rc != SUCCESS || flag == 0 {
                return None;
            }
            real::PMPI_Get_count(status, handles::byte_type(), &mut length);
        }
        let rank = status.source as u32;
        Message::receive(length.max(0) as usize, Peer { comm, rank, tag })
    }

    /// Whether it has ended; an MPI error code if it has failed.
    pub(super) fn test(&mut self) -> Result<bool, c_int> {
        own_messages::test(&mut self.requests)
    }

    /// After a failure: ends it. Returns how many requests have not ended within `limit`; their memory is given up then.
    pub(super) fn quiesce(mut self, is_receive: bool, limit: Duration) -> usize {
        let left = if is_receive {
            own_messages::drive(&mut self.requests, limit)
        } else {
            own_messages::end(&mut self.requests, limit)
        };
        if left > 0 {
            std::mem::forget(self);
        }
        left
    }
}

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
