//! The program's buffers for buffered sends (MPI 4.1, section 3.6), which are only counted with.

use super::attached_buffer::{Attached, Owner};
use super::record::{Kind, State};
use super::request_borrows::table;
use super::request_entries::{get, is_active};
use crate::Runtime;
use crate::handles::VirtComm;
use crate::objects::comm;
use std::cell::{Ref, RefMut};

/// What is attached, to be saved with a cut.
pub fn buffers(rt: &Runtime) -> Ref<'_, Vec<Attached>> {
    rt.requests.attached.borrow()
}

/// The same, to be changed.
pub fn buffers_mut(rt: &Runtime) -> RefMut<'_, Vec<Attached>> {
    rt.requests.attached.borrow_mut()
}

/// The buffer of this owner.
pub fn attached(rt: &Runtime, owner: Owner) -> Option<Attached> {
    buffers(rt)
        .iter()
        .find(|buffer| buffer.owner == owner)
        .copied()
}

/// The owner is gone, or its buffer is.
pub fn detach(rt: &Runtime, owner: Owner) {
    buffers_mut(rt).retain(|buffer| buffer.owner != owner);
}

/// How many bytes of a buffer are taken.
pub fn taken(rt: &Runtime, owner: Owner) -> u64 {
    let table = table(rt);
    let takes = table.iter().filter_map(|(_, request)| request.buffered);
    takes
        .filter(|takes| takes.0 == owner)
        .map(|takes| takes.1)
        .sum()
}

/// The messages that are under way of those that a request waits for, if it is one that
/// [flushes](Kind::Flush) a buffer and has not ended: those that were in the buffer when it was
/// begun.
pub fn flushed_by(rt: &Runtime, flush: u32) -> Option<Vec<u32>> {
    let flush = get(rt, flush)
        .filter(|request| request.state == State::Open)?
        .clone();
    let Kind::Flush(owner) = flush.kind else {
        return None;
    };
    let before: Vec<u32> = {
        let table = table(rt);
        let messages = table
            .iter()
            .filter(|(_, request)| request.begun < flush.begun);
        let of_owner =
            messages.filter(|(_, request)| request.buffered.is_some_and(|takes| takes.0 == owner));
        of_owner.map(|(index, _)| index).collect()
    };
    Some(
        before
            .into_iter()
            .filter(|&index| is_active(rt, index))
            .collect(),
    )
}

/// Where a message of so many bytes on a communicator goes: into the communicator's own buffer,
/// that of the session it comes from, or that of the process (MPI 4.1, 3.6), if the first of these
/// that is there has room.
pub fn with_room(rt: &Runtime, comm: VirtComm, bytes: u64) -> Option<Owner> {
    let owners = [
        comm.into(),
        Owner::Session(comm::session(rt, comm)),
        Owner::Process,
    ];
    let found = owners.into_iter().find_map(|owner| attached(rt, owner))?;
    let has_room = taken(rt, found.owner) + bytes <= found.size.max(0) as u64;
    has_room.then_some(found.owner)
}
