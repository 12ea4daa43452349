//! Messages of a guardian to its manager.

use crate::{ChildNews, Ended};
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// What a guardian says.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum FromGuardian {
    Ended(Ended),
    Child {
        id: u64,
        news: ChildNews,
    },
    /// A process has called; comes with the [`Call::DESCRIPTORS`] of the call.
    Called {
        number: ProcessNumber,
        call: Call,
    },
    /// After [`crate::Hello::Guardian`], and before [`FromGuardian::Told`]: what is known of a
    /// process.
    Has(Has),
    Told,
}

/// A process has called its guardian.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Call {
    pub pid: u32,
    /// The file of its MPI library.
    pub library: String,
}

impl Call {
    /// The line to it, its page, and itself (pidfd_open(2)).
    pub const DESCRIPTORS: usize = 3;
}

/// What a guardian has of a process that it has started. Comes with the descriptors of the calls,
/// and then the files.
#[derive(Clone, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Has {
    pub number: ProcessNumber,
    /// The last ones: a script runs one program after the other.
    pub calls: Vec<Call>,
    /// The worker whose copies the files have that it has handed over, or has got as an heir.
    pub keeps: Option<Worker>,
    /// It has inherited from this one.
    pub heir_of: Option<ProcessNumber>,
    /// What has ended of it.
    pub ends: Vec<Ended>,
}
