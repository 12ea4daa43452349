//! Requests between the servers of several nodes.
//!
//! A server has the data of its node's processes only. It passes a request for data of other nodes
//! to its [`Peers`], together with an [`Answer`]. The owner of the server sends the request, and
//! fills in the answer when all replies have arrived.

use crate::{GenerationName, Preput};
use bincode::{Decode, Encode};
use parking_lot::Mutex;
use std::sync::Arc;
use understudy_messages::ChildProgram;
use understudy_numbers::Rank;

/// Reply to a request; `None` if data can no longer arrive.
type Reply = Option<Vec<u8>>;
type ReplyHandler = Box<dyn FnOnce(Reply) + Send>;

/// Answer to an open request; if it is dropped, the reply is `None`.
pub struct Answer(Arc<Mutex<Option<ReplyHandler>>>);

impl Answer {
    /// Returns an answer, and a handle with which its server can end the request.
    pub fn new(handler: ReplyHandler) -> (Answer, AnswerCancellation) {
        let slot = Arc::new(Mutex::new(Some(handler)));
        (Answer(slot.clone()), AnswerCancellation(slot))
    }

    /// Replies with these bytes; no effect if the generation has ended.
    pub fn give(self, bytes: Vec<u8>) {
        resolve(&self.0, Some(bytes));
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        resolve(&self.0, None);
    }
}

/// The server's end of an [`Answer`].
#[derive(Clone)]
pub struct AnswerCancellation(Arc<Mutex<Option<ReplyHandler>>>);

impl AnswerCancellation {
    /// Ends the request without data.
    pub fn fail(self) {
        resolve(&self.0, None);
    }

    pub fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }
}

fn resolve(slot: &Mutex<Option<ReplyHandler>>, reply: Reply) {
    let handler = slot.lock().take();
    if let Some(handler) = handler {
        handler(reply);
    }
}

/// Processes of one namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum MemberRanks {
    /// All processes, however many there are.
    All,
    /// Processes with these ranks, in ascending order.
    Listed(Vec<Rank>),
}

/// Processes by namespace, sorted; each namespace occurs once.
pub type Members = Vec<(GenerationName, MemberRanks)>;

/// Purpose of a fence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum Purpose {
    /// A barrier with optional data exchange (PMIx_Fence, PMI's barrier).
    Exchange,
    /// Connection of namespaces (PMIx_Connect).
    Connect,
    /// Disconnection of namespaces (PMIx_Disconnect).
    Disconnect,
}

/// A fence that all participating ranks of this node have entered.
pub struct Fence {
    pub purpose: Purpose,
    /// Participants on all nodes.
    pub members: Members,
    /// Number of earlier fences with these members and this purpose.
    ///
    /// The number, the members and the purpose identify the fence on other nodes.
    pub number: u64,
    /// Data that this node's ranks send to all members.
    pub bytes: Vec<u8>,
    /// Receives the data of all nodes, including this one, concatenated in any order.
    pub answer: Answer,
}

/// Request of a rank for data that a rank of another node has put (PMIx_Get).
pub struct ModexRequest {
    pub generation: GenerationName,
    pub rank: Rank,
    /// Receives the reply of the other node's server ([`crate::Server::modex`]).
    pub answer: Answer,
}

/// Request of a rank to spawn processes (PMIx_Spawn, PMI's `spawn`).
pub struct Spawn {
    pub generation: GenerationName,
    pub rank: Rank,
    /// Programs in the order of their ranks.
    pub programs: Vec<ChildProgram>,
    pub put: Preput,
    /// Receives the name of the new namespace.
    pub answer: Answer,
}

/// Servers of other nodes; called by threads of this node's server, and must not block.
pub trait Peers: Send + Sync {
    fn fence(&self, fence: Fence);
    fn modex(&self, modex: ModexRequest);
    fn spawn(&self, spawn: Spawn);
}

/// Peers of a server without other nodes.
pub struct NoPeers;

impl Peers for NoPeers {
    fn fence(&self, fence: Fence) {
        fence.answer.give(fence.bytes);
    }

    /// Fails the request: without other nodes, the server itself has all data that exist.
    fn modex(&self, _: ModexRequest) {}

    /// Fails the request, because spawning is not supported.
    fn spawn(&self, _: Spawn) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_answer_is_given_once() {
        let (replies, got) = mpsc::channel();
        let answer = || {
            let replies = replies.clone();
            Answer::new(Box::new(move |reply| replies.send(reply).unwrap()))
        };
        let (given, _recall) = answer();
        given.give(vec![1]);
        let (dropped, _recall) = answer();
        drop(dropped);
        let (late, recall) = answer();
        assert!(recall.is_open());
        recall.fail();
        late.give(vec![2]);
        drop(replies);
        assert_eq!(
            got.into_iter().collect::<Vec<_>>(),
            [Some(vec![1]), None, None]
        );
    }
}
