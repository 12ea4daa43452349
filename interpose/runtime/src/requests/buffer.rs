//! The program's buffers for buffered sends (MPI 4.1, section 3.6), which are only counted with.

use crate::handles::{VirtComm, VirtSession};
use crate::requests::{Runtime, table};
use std::cell::{Ref, RefMut};

/// What a buffer is attached to: the program's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Owner {
    /// The process.
    Process,
    /// A communicator.
    Comm(u64),
    /// A session.
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

/// A buffer.
#[derive(Clone, Copy, Debug, bincode::Encode, bincode::Decode)]
pub struct Attached {
    /// What it is attached to.
    pub owner: Owner,
    /// Address on the user side.
    pub address: u64,
    /// Bytes.
    pub size: i64,
}

/// What is attached, to be saved with a cut.
pub fn buffers(rt: &Runtime) -> Ref<'_, Vec<Attached>> {
    rt.attached.borrow()
}

/// The same, to be changed.
pub fn buffers_mut(rt: &Runtime) -> RefMut<'_, Vec<Attached>> {
    rt.attached.borrow_mut()
}

/// The buffer of this owner.
pub fn attached(rt: &Runtime, owner: Owner) -> Option<Attached> {
    buffers(rt).iter().find(|buffer| buffer.owner == owner).copied()
}

/// The owner is gone, or its buffer is.
pub fn detach(rt: &Runtime, owner: Owner) {
    buffers_mut(rt).retain(|buffer| buffer.owner != owner);
}

/// How many bytes of a buffer are taken.
pub fn taken(rt: &Runtime, owner: Owner) -> u64 {
    let table = table(rt);
    let takes = table.iter().filter_map(|(_, request)| request.buffered);
    takes.filter(|takes| takes.0 == owner).map(|takes| takes.1).sum()
}

/// Where a message of so many bytes on a communicator goes: into the communicator's own buffer, or else into that of the process or of a
/// session. From which session a communicator comes is not recorded: since nothing is written to buffers, one that has room will do.
pub fn with_room(rt: &Runtime, comm: VirtComm, bytes: u64) -> Option<Owner> {
    let has_room = |buffer: &&Attached| taken(rt, buffer.owner) + bytes <= buffer.size.max(0) as u64;
    let buffers = buffers(rt);
    let found = match buffers.iter().find(|buffer| buffer.owner == comm.into()) {
        Some(own) => Some(own).filter(has_room),
        None => {
            let mut others = buffers.iter().filter(|buffer| !matches!(buffer.owner, Owner::Comm(_)));
            others.find(has_room)
        }
    };
    found.map(|buffer| buffer.owner)
}
