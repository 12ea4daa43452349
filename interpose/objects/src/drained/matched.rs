//! Messages that the program has matched but not yet received (MPI 4.1, section 3.8.2).
//!
//! A cut receives matched messages: they become drained messages with the index of the program's
//! message handle, and no other receive matches them. A rollback therefore restores matched
//! messages with the list of drained messages.

use super::drained_message::{DrainedMessage, MatchedMessage, first_matching};
use super::drained_table::{add, change};
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{self, VirtComm, VirtMessage};
use crate::objects::lookup::created_index;
use std::ffi::c_int;
use understudy_mpi::real_types::{RealMessage, Status};

/// Matched message, which is in the real library or has been drained.
pub enum MatchedLocation {
    /// Message in the real library, with the communicator and the status of its match.
    Real(RealMessage, VirtComm, Status),
    /// Drained message, which was received at a cut.
    Drained(DrainedMessage),
}

/// Returns the position in the drained messages of the matched message with this index.
fn drained_position(rt: &Runtime, index: u32) -> Option<usize> {
    rt.drained
        .messages
        .borrow()
        .iter()
        .position(|drained| drained.claimed == Some(index))
}

fn unused_index(rt: &Runtime) -> u32 {
    (0..).find(|&index| !exists(rt, index)).unwrap_or(0)
}

fn handle(index: u32) -> VirtMessage {
    VirtMessage(handles::virtual_handle(HandleKind::Message, index))
}

/// True if a matched message with this index exists.
pub fn exists(rt: &Runtime, index: u32) -> bool {
    rt.drained
        .matched
        .borrow()
        .get(index as usize)
        .is_some_and(Option::is_some)
        || drained_position(rt, index).is_some()
}

/// Enters a message that the real library has matched on `comm`.
pub fn enter(rt: &Runtime, comm: VirtComm, real: RealMessage, status: Status) -> VirtMessage {
    let index = unused_index(rt);
    let mut table = rt.drained.matched.borrow_mut();
    if table.len() <= index as usize {
        table.resize(index as usize + 1, None);
    }
    table[index as usize] = Some(MatchedMessage { comm, real, status });
    handle(index)
}

/// Matches the first drained message with this communicator, source and tag.
pub fn claim(
    rt: &Runtime,
    comm: VirtComm,
    source: c_int,
    tag: c_int,
) -> Option<(VirtMessage, Status)> {
    let index = unused_index(rt);
    let mut list = rt.drained.messages.borrow_mut();
    let at = first_matching(&list, comm, source, tag)?;
    let drained = &mut list[at];
    drained.claimed = Some(index);
    Some((handle(index), drained.status()))
}

/// Removes a matched message, which the caller receives.
pub fn take(rt: &Runtime, message: VirtMessage) -> Option<MatchedLocation> {
    let index = created_index(HandleKind::Message, message.0)?;
    if let Some(at) = drained_position(rt, index) {
        return Some(MatchedLocation::Drained(change(rt, |list| list.remove(at))));
    }
    let matched = rt
        .drained
        .matched
        .borrow_mut()
        .get_mut(index as usize)?
        .take()?;
    Some(MatchedLocation::Real(
        matched.real,
        matched.comm,
        matched.status,
    ))
}

/// Discards the messages that were matched in a real library that has been reset.
pub fn discard_matched(rt: &Runtime) {
    rt.drained.matched.borrow_mut().clear();
}

/// Returns the end of the index range of messages that the real library has matched.
pub fn matched_index_end(rt: &Runtime) -> u32 {
    rt.drained.matched.borrow().len() as u32
}

/// Returns the message with this index if it is in the real library.
pub fn matched(rt: &Runtime, index: u32) -> Option<MatchedMessage> {
    rt.drained
        .matched
        .borrow()
        .get(index as usize)
        .copied()
        .flatten()
}

/// Turns a matched message that a cut has received into a drained message.
///
/// `status` is the status of that receive.
pub fn record_received(rt: &Runtime, index: u32, comm: VirtComm, status: &Status, data: Vec<u8>) {
    rt.drained.matched.borrow_mut()[index as usize] = None;
    add(
        rt,
        DrainedMessage {
            comm: comm.0 as u64,
            source: status.source,
            tag: status.tag,
            data,
            claimed: Some(index),
            sender_to_notify: None,
        },
    );
}
