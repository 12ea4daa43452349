//! What the servers of several nodes ask of each other.
//!
//! A server knows the processes of its node only. What it needs of others, it hands to its
//! [`Peers`], with an [`Answer`] to fill in: whoever drives the daemon sends it there, and answers
//! when all have come.

use crate::{Name, Preput};
use bincode::{Decode, Encode};
use parking_lot::Mutex;
use std::sync::Arc;
use understudy_messages::ChildProgram;
use understudy_numbers::Rank;

/// Bytes or nothing; `None`: it can no longer come.
type Reply = Option<Vec<u8>>;
type Answering = Box<dyn FnOnce(Reply) + Send>;

/// An answer that somebody waits for. Dropped without one, it says that there will be none.
pub struct Answer(Arc<Mutex<Option<Answering>>>);

impl Answer {
    /// An answer, and what takes it back if nobody shall wait for it any more.
    pub fn new(answering: Answering) -> (Answer, Recall) {
        let slot = Arc::new(Mutex::new(Some(answering)));
        (Answer(slot.clone()), Recall(slot))
    }

    /// Answers. Does nothing if the generation has ended meanwhile.
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
pub struct Recall(Arc<Mutex<Option<Answering>>>);

impl Recall {
    /// Answers that it will not come.
    pub fn fail(self) {
        resolve(&self.0, None);
    }

    pub fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }
}

fn resolve(slot: &Mutex<Option<Answering>>, reply: Reply) {
    let answering = slot.lock().take();
    if let Some(answering) = answering {
        answering(reply);
    }
}

/// Processes: each namespace once, with its ranks, all in order.
pub type Members = Vec<(Name, Vec<Rank>)>;

/// What processes do together that come to a fence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Encode, Decode)]
pub enum Purpose {
    /// They wait for each other, and may exchange bytes (PMIx_Fence, PMI's barrier).
    Exchange,
    /// Namespaces are connected (PMIx_Connect).
    Connect,
    /// They are not any more (PMIx_Disconnect).
    Disconnect,
}

/// All ranks of this node have come to a fence.
pub struct Fence {
    pub purpose: Purpose,
    /// Who takes part, of all nodes.
    pub members: Members,
    /// How many of these members there were before for this: with them it tells which fence of
    /// another node is the same.
    pub number: u64,
    /// What this node's ranks bring, for all others.
    pub bytes: Vec<u8>,
    /// To be given the bytes of all nodes, this one's too, one after the other in any order.
    pub answer: Answer,
}

/// A rank of this node wants what another node's rank has put (PMIx_Get).
pub struct Modex {
    pub generation: Name,
    pub rank: Rank,
    /// To be given what that node's server says ([`crate::Server::modex`]).
    pub answer: Answer,
}

/// A rank of this node wants processes started (PMIx_Spawn, PMI's `spawn`).
pub struct Spawn {
    pub generation: Name,
    pub rank: Rank,
    /// Their ranks follow each other in the order of these.
    pub programs: Vec<ChildProgram>,
    pub put: Preput,
    /// To be given the name of their namespace.
    pub answer: Answer,
}

/// Other nodes' servers. Is called by threads of the libraries and must not wait.
pub trait Peers: Send + Sync {
    fn fence(&self, fence: Fence);
    fn modex(&self, modex: Modex);
    fn spawn(&self, spawn: Spawn);
}

/// There is no other node.
pub struct Alone;

impl Peers for Alone {
    fn fence(&self, fence: Fence) {
        fence.answer.give(fence.bytes);
    }

    /// What a rank of this node has put, its server knows without asking.
    fn modex(&self, _: Modex) {}

    /// There is nobody who starts processes.
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
