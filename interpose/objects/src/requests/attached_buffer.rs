//! Buffers for buffered sends (MPI 4.1, section 3.6), and the objects that own them. Plain data.

use crate::handles::{VirtComm, VirtSession};

/// Object that a buffer is attached to, as the program's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum BufferOwner {
    Process,
    Comm(u64),
    Session(u64),
}

impl From<VirtComm> for BufferOwner {
    fn from(comm: VirtComm) -> BufferOwner {
        BufferOwner::Comm(comm.0 as u64)
    }
}

impl From<VirtSession> for BufferOwner {
    fn from(session: VirtSession) -> BufferOwner {
        BufferOwner::Session(session.0 as u64)
    }
}

/// Space of a buffer that a send uses until its message is complete.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct BufferUse {
    pub owner: BufferOwner,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct AttachedBuffer {
    /// Object that the buffer is attached to.
    pub owner: BufferOwner,
    /// Address on the program side.
    pub address: u64,
    /// Size in bytes.
    pub size: i64,
}
