//! Messages from threads to the node, which has one thread.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use understudy_numbers::{ProcessNumber, Rank};
use understudy_pmi::{Fence, GenerationName, ModexRequest, Peers, RankAction, RankEvent, Spawn};
use understudy_sockets::Registry;

/// A message for the node.
pub enum NodeMessage {
    Fence(Fence),
    Modex(ModexRequest),
    Spawn(Spawn),
    /// A namespace of processes to be spawned; true if all nodes have registered it.
    Joined(GenerationName, bool),
    /// Data that a rank of this node has put; answers another node's request.
    Reply(u64, Option<Vec<u8>>),
    /// Boards of workers on another node; answers a request of this process.
    BoardContents(ProcessNumber, u64, Vec<u8>),
    /// The MPI library or the program of this rank has aborted with this status.
    Aborted(GenerationName, Rank, i32),
    /// This process has got a signal that requests a checkpoint on disk.
    CheckpointRequested(i32),
    /// This owner file of the job in its directory of checkpoints has been removed.
    DirectoryLost(PathBuf),
    /// This rank has called `MPI_Finalize`.
    Finalised(GenerationName, Rank),
}

/// Receiving end of the queue.
pub struct NodeQueue {
    messages: Receiver<NodeMessage>,
    sender: QueueSender,
}

/// Sending end of the queue.
#[derive(Clone)]
pub struct QueueSender {
    messages: Sender<NodeMessage>,
    registry: Registry,
}

impl NodeQueue {
    /// Creates an empty queue; each message wakes the poller of this registry.
    pub fn new(registry: &Registry) -> NodeQueue {
        let (sending_end, messages) = channel();
        let sender = QueueSender {
            messages: sending_end,
            registry: registry.clone(),
        };
        NodeQueue { messages, sender }
    }

    pub fn sender(&self) -> QueueSender {
        self.sender.clone()
    }

    /// Returns all messages that have arrived.
    pub fn take(&self) -> Vec<NodeMessage> {
        self.messages.try_iter().collect()
    }
}

impl QueueSender {
    pub fn put(&self, message: NodeMessage) {
        // The node is gone at the end of the job.
        let _ = self.messages.send(message);
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
                    self.put(NodeMessage::Aborted(event.generation, event.rank, status));
                }
                RankAction::Finalized => {
                    self.put(NodeMessage::Finalised(event.generation, event.rank))
                }
                RankAction::Connected => {}
            }
        }
    }
}

impl Peers for QueueSender {
    fn fence(&self, fence: Fence) {
        self.put(NodeMessage::Fence(fence));
    }

    fn modex(&self, modex: ModexRequest) {
        self.put(NodeMessage::Modex(modex));
    }

    fn spawn(&self, spawn: Spawn) {
        self.put(NodeMessage::Spawn(spawn));
    }
}
