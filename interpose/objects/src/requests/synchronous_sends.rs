//! Synchronous sends that are not complete. Plain data.

use crate::handles::VirtComm;

/// Synchronous send that is not complete.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct SynchronousSend {
    /// Number that identifies the send within this process.
    pub number: u64,
    /// Index of the request.
    pub(super) index: u32,
    /// Virtual communicator.
    pub(super) comm: u64,
    /// Rank of the receiver in the communicator.
    pub(super) peer: i32,
    /// Receiver, as a rank of `MPI_COMM_WORLD`.
    pub to: u32,
    pub tag: i32,
    /// Number of later messages with equal receiver, communicator and tag.
    pub followers: u64,
}

impl SynchronousSend {
    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut _)
    }
}

/// Synchronous sends of a process.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct SynchronousSends {
    pub(super) pending: Vec<SynchronousSend>,
    /// Number of the next send.
    pub(super) next: u64,
}

impl SynchronousSends {
    /// No sends.
    pub const NONE: SynchronousSends = SynchronousSends {
        pending: Vec::new(),
        next: 0,
    };
}
