//! Messages from a guardian to its manager.

use crate::{ChildNews, Ended};
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// A message from a guardian to its manager.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum FromGuardian {
    Ended(Ended),
    Child {
        id: u64,
        news: ChildNews,
    },
    /// A process has registered; the [`Call::DESCRIPTORS`] of the call come with the message.
    Called {
        number: ProcessNumber,
        call: Call,
    },
    /// State of one process.
    ///
    /// Sent after [`crate::Hello::Guardian`] and before [`FromGuardian::Told`].
    Has(Has),
    Told,
}

/// Registration of a process with its guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Call {
    pub pid: u32,
    /// File name of the process's MPI library.
    pub library: String,
}

impl Call {
    /// Number of descriptors: connection to the process, its page, and its pidfd (pidfd_open(2)).
    pub const DESCRIPTORS: usize = 3;
}

/// State that a guardian has about a process that it has started.
///
/// The descriptors of the calls come with the message, followed by the files of the replica store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Has {
    pub number: ProcessNumber,
    /// Registrations of the process; a script runs several programs one after the other.
    pub calls: Vec<Call>,
    /// Worker whose replicas are in the process's replica store.
    ///
    /// The process has handed the store over itself or has adopted it.
    pub keeps: Option<Worker>,
    /// Process from which this process has adopted a replica store.
    pub heir_of: Option<ProcessNumber>,
    /// End of the process and of its output, if they have ended.
    pub ends: Vec<Ended>,
}
