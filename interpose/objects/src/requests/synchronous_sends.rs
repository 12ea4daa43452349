//! Synchronous sends that are not complete. Plain data.

use crate::handles::VirtComm;

/// Synchronous send that is not complete.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct Synchronous {
    /// Number that identifies the send within this process.
    pub number: u64,
    pub(super) index: u32,
    pub(super) comm: u64,
    pub(super) peer: i32,
    pub to: u32,
    pub tag: i32,
    /// Number of later messages with equal receiver, communicator and tag.
    pub followers: u64,
}

impl Synchronous {
    pub fn comm(&self) -> VirtComm {
        VirtComm(self.comm as *mut _)
    }
}

/// Synchronous sends of a process.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Sends {
    pub(super) pending: Vec<Synchronous>,
    pub(super) next: u64,
}

impl Sends {
    /// No sends.
    pub const NONE: Sends = Sends {
        pending: Vec::new(),
        next: 0,
    };
}
