//! Synchronous sends that have not ended. Plain data.

use crate::handles::VirtComm;

/// A synchronous send that has not ended.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct Synchronous {
    /// Names it among those of this process.
    pub number: u64,
    pub(super) index: u32,
    pub(super) comm: u64,
    pub(super) peer: i32,
    pub to: u32,
    pub tag: i32,
    /// Messages sent since to the same receiver on the same communicator with the same tag.
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
