//! What threads of the MPI library's servers have for the node, which has one thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use understudy_numbers::{ProcessNumber, Rank};
use understudy_pmi::{Fence, Modex, Name, Peers, RankAction, RankEvent, Spawn};
use understudy_sockets::Registry;

/// Something for the node.
pub enum Mail {
    Fence(Fence),
    Modex(Modex),
    Spawn(Spawn),
    /// All nodes know this namespace of processes that are to be spawned, or they cannot.
    Joined(Name, bool),
    /// What a rank of this node has put, which another node has asked for by this number.
    Reply(u64, Option<Vec<u8>>),
    /// What another node's workers show, for this process, which has asked for it by this number.
    Shown(ProcessNumber, u64, Vec<u8>),
    /// The MPI library of this rank has given up, or its program, with this status.
    Broke(Name, Rank, i32),
    /// This rank has called MPI_Finalize.
    Finalised(Name, Rank),
}

/// Where it comes in.
pub struct Post {
    mail: Receiver<Mail>,
    slot: Slot,
}

/// Where it is put.
#[derive(Clone)]
pub struct Slot {
    mail: Sender<Mail>,
    registry: Registry,
}

impl Post {
    /// Makes an empty one, which wakes the poller of this registry for each mail.
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

    /// All that has come.
    pub fn take(&self) -> Vec<Mail> {
        self.mail.try_iter().collect()
    }
}

impl Slot {
    pub fn put(&self, mail: Mail) {
        // The node has gone at the job's end.
        let _ = self.mail.send(mail);
        self.registry.wake();
    }

    /// Passes on what the servers see of libraries that give up, until their end.
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
