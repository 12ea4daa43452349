//! The program's buffers for buffered sends (MPI 4.1, section 3.6).
//!
//! The runtime copies messages into its own memory, and uses only the sizes of the buffers: a send
//! fails if the program's buffer would be too small.

use super::attached_buffer::{AttachedBuffer, BufferOwner};
use super::request::{RequestKind, RequestState};
use super::request_borrows::table;
use super::request_entries::{get, is_active};
use crate::Runtime;
use crate::handles::VirtComm;
use crate::objects::comm;
use std::cell::{Ref, RefMut};

/// Returns all attached buffers, which are saved with a cut.
pub fn buffers(rt: &Runtime) -> Ref<'_, Vec<AttachedBuffer>> {
    rt.requests.attached.borrow()
}

/// Returns all attached buffers, to change them.
pub fn buffers_mut(rt: &Runtime) -> RefMut<'_, Vec<AttachedBuffer>> {
    rt.requests.attached.borrow_mut()
}

/// Returns the buffer of this owner; `None` if no buffer is attached.
pub fn attached(rt: &Runtime, owner: BufferOwner) -> Option<AttachedBuffer> {
    buffers(rt)
        .iter()
        .find(|buffer| buffer.owner == owner)
        .copied()
}

/// Removes the buffer of an owner.
pub fn detach(rt: &Runtime, owner: BufferOwner) {
    buffers_mut(rt).retain(|buffer| buffer.owner != owner);
}

/// Returns the number of bytes of a buffer that are in use.
pub fn used_bytes(rt: &Runtime, owner: BufferOwner) -> u64 {
    let table = table(rt);
    let uses = table.iter().filter_map(|(_, request)| request.buffered);
    uses.filter(|buffer_use| buffer_use.owner == owner)
        .map(|buffer_use| buffer_use.bytes)
        .sum()
}

/// Returns the incomplete messages for which a [flush](RequestKind::Flush) of a buffer waits.
///
/// Only messages that were in the buffer when the flush was started are returned. `None` for other
/// requests, and for a complete flush.
pub fn flushed_by(rt: &Runtime, flush: u32) -> Option<Vec<u32>> {
    let flush = get(rt, flush)
        .filter(|request| request.state == RequestState::Open)?
        .clone();
    let RequestKind::Flush(owner) = flush.kind else {
        return None;
    };
    let before: Vec<u32> = {
        let table = table(rt);
        let messages = table
            .iter()
            .filter(|(_, request)| request.stamp < flush.stamp);
        let of_owner = messages
            .filter(|(_, request)| request.buffered.is_some_and(|used| used.owner == owner));
        of_owner.map(|(index, _)| index).collect()
    };
    Some(
        before
            .into_iter()
            .filter(|&index| is_active(rt, index))
            .collect(),
    )
}

/// Returns the owner of the buffer for a message of this size on a communicator.
///
/// The message uses the buffer of the communicator. If the communicator has none, the message uses
/// the buffer of the communicator's session, or otherwise that of the process (MPI 4.1, 3.6).
/// `None` if there is no buffer or if the buffer has no room.
pub fn buffer_with_room(rt: &Runtime, comm: VirtComm, bytes: u64) -> Option<BufferOwner> {
    let owners = [
        comm.into(),
        BufferOwner::Session(comm::session(rt, comm)),
        BufferOwner::Process,
    ];
    let found = owners.into_iter().find_map(|owner| attached(rt, owner))?;
    let has_room = used_bytes(rt, found.owner) + bytes <= found.size.max(0) as u64;
    has_room.then_some(found.owner)
}
