//! Messages from a guardian to its manager.

use crate::{Activity, ChildState, ProcessEnd};
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// A message from a guardian to its manager.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum FromGuardian {
    Ended(ProcessEnd),
    /// The guardian has got a signal that requests a checkpoint on disk.
    RequestCheckpoint {
        signal: i32,
    },
    Child {
        id: u64,
        news: ChildState,
    },
    /// A process has registered; the [`Registration::DESCRIPTORS`] of the call come with the
    /// message.
    Registered {
        number: ProcessNumber,
        call: Registration,
    },
    /// State of one process.
    ///
    /// Sent after [`crate::Hello::Guardian`] and before [`FromGuardian::AllReported`].
    Process(ProcessRecord),
    AllReported,
    /// A process has become inactive, or is active again (`None`).
    Activity {
        number: ProcessNumber,
        activity: Option<Activity>,
    },
    /// Heartbeat, which the manager returns.
    Beat,
    /// The guardian exits, and sends no heartbeats any more.
    Leaves,
}

/// Registration of a process with its guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Registration {
    pub pid: u32,
    /// File name of the process's MPI library.
    pub library: String,
}

impl Registration {
    /// Number of descriptors: connection to the process, its page, and its pidfd (pidfd_open(2)).
    pub const DESCRIPTORS: usize = 3;
}

/// State that a guardian has about a process that it has started.
///
/// The descriptors of the calls come with the message, followed by the files of the replica store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct ProcessRecord {
    pub number: ProcessNumber,
    /// Last registrations of the process; a script runs several programs one after the other.
    pub registrations: Vec<Registration>,
    /// Worker for whose replacement the process's replica store is.
    ///
    /// `None` without a store. The process has handed the store over itself or has adopted it.
    pub replicas_of: Option<Worker>,
    /// Process from which this process has adopted a replica store.
    pub adopted_from: Option<ProcessNumber>,
    /// End of the process and of its output, if they have ended.
    pub ends: Vec<ProcessEnd>,
}
