//! Buffers for buffered sends (MPI 4.1, section 3.6), and the objects that own them. Plain data.

use crate::handles::{VirtComm, VirtSession};

/// Object that a buffer is attached to, as the program's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Owner {
    Process,
    Comm(u64),
    Session(u64),
}

impl From<VirtComm> for Owner {
    fn from(comm: VirtComm) -> Owner {
        Owner::Comm(comm.0 as u64)
    }
}

impl From<VirtSession> for Owner {
    fn from(session: VirtSession) -> Owner {
        Owner::Session(session.0 as u64)
    }
}

#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct Attached {
    /// Object that the buffer is attached to.
    pub owner: Owner,
    /// Address on the program side.
    pub address: u64,
    /// Size in bytes.
    pub size: i64,
}
