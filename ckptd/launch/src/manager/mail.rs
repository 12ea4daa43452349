//! Messages from threads of the MPI library's servers to the node, which has one thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use understudy_numbers::{ProcessNumber, Rank};
use understudy_pmi::{Fence, Modex, Name, Peers, RankAction, RankEvent, Spawn};
use understudy_sockets::Registry;

/// A message for the node.
pub enum Mail {
    Fence(Fence),
    Modex(Modex),
    Spawn(Spawn),
    /// A namespace of processes to be spawned; true if all nodes have registered it.
    Joined(Name, bool),
    /// Data that a rank of this node has put; answers another node's request.
    Reply(u64, Option<Vec<u8>>),
    /// Boards of workers on another node; answers a request of this process.
    Shown(ProcessNumber, u64, Vec<u8>),
    /// The MPI library or the program of this rank has aborted with this status.
    Broke(Name, Rank, i32),
    /// This rank has called `MPI_Finalize`.
    Finalised(Name, Rank),
}

/// Receiving end of the queue.
pub struct Post {
    mail: Receiver<Mail>,
    slot: Slot,
}

/// Sending end of the queue.
#[derive(Clone)]
pub struct Slot {
    mail: Sender<Mail>,
    registry: Registry,
}

impl Post {
    /// Creates an empty queue; each message wakes the poller of this registry.
    pub fn new(registry: &Registry) -> Post {
        let (sender, mail) = channel();
        let slot = Slot {
            mail: sender,
            registry: registry.clone(),
        };
        Post { mail, slot }
    }

    pub fn slot(&self) -> Slot {
        self.slot.clone()
    }

    /// Returns all messages that have arrived.
    pub fn take(&self) -> Vec<Mail> {
        self.mail.try_iter().collect()
    }
}

impl Slot {
    pub fn put(&self, mail: Mail) {
        // The node is gone at the end of the job.
        let _ = self.mail.send(mail);
        self.registry.wake();
    }

    /// Forwards events of the servers until they end.
    pub fn pass_on(&self, events: Receiver<RankEvent>) {
        for event in events {
            match event.action {
                RankAction::Abort { status, message } => {
                    log::info!(
                        "rank {} of {} aborts ({status}): {message}",
                        event.rank,
                        event.generation
                    );
                    self.put(Mail::Broke(event.generation, event.rank, status));
                }
                RankAction::Finalized => self.put(Mail::Finalised(event.generation, event.rank)),
                RankAction::Connected => {}
            }
        }
    }
}

impl Peers for Slot {
    fn fence(&self, fence: Fence) {
        self.put(Mail::Fence(fence));
    }

    fn modex(&self, modex: Modex) {
        self.put(Mail::Modex(modex));
    }

    fn spawn(&self, spawn: Spawn) {
        self.put(Mail::Spawn(spawn));
    }
}
