//! Synchronous sends (MPI 4.1, 3.4), which complete when a matching receive has started.
//!
//! A cut drains messages that no receive of the program has matched (`drain` of the runtime). The
//! library then completes their sends, but for the program they are not complete: such a request is
//! [open](RequestState::Open) until the receiver reports that the program has received the message.
//!
//! At a cut the sender queries the receiver, for each incomplete synchronous send, whether the
//! message is among the drained messages. The receiver identifies the message by its envelope and
//! by the number of *followers*, the messages with that envelope that were sent after the message.

use super::request::{
    EMPTY_STATUS, MessageArguments, Request, RequestKind, RequestState, SendMode, done_state,
};
use super::request_entries::{get, index, set_state};
use super::request_table::TableWithReals;
use super::synchronous_sends::SynchronousSend;
use crate::Runtime;
use crate::errors::SUCCESS;
use crate::handles::{VirtComm, VirtRequest};
use crate::objects::comm;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use understudy_numbers::Worker;

/// True if there may be incomplete synchronous sends; every send reads this flag.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

fn is_synchronous(request: &Request) -> bool {
    matches!(
        request.kind,
        RequestKind::Synchronous | RequestKind::PersistentSend(SendMode::Synchronous, _)
    )
}

impl TableWithReals {
    /// Removes sends that are complete.
    fn remove_completed(&mut self) {
        let requests = &self.requests;
        let has_ended = |send: &SynchronousSend| {
            let request = requests
                .get(send.index)
                .filter(|request| is_synchronous(request));
            request.is_none_or(|request| !request.is_started())
        };
        let mut pending = requests.synchronous.pending.clone();
        pending.retain(|send| !has_ended(send));
        HAS_ANY.store(!pending.is_empty(), Ordering::Relaxed);
        self.requests.synchronous.pending = pending;
    }
}

/// Records the start of a synchronous send.
///
/// Followers of the send are counted from now on. A send to a process that is not a worker is not
/// recorded.
pub fn add(rt: &Runtime, index: u32, comm: VirtComm, peer: c_int, tag: c_int) {
    let Some(to) = comm::worker_of(rt, comm, peer) else {
        return;
    };
    let sends = &mut rt.requests.table.borrow_mut().requests.synchronous;
    let number = sends.next;
    sends.next += 1;
    sends.pending.retain(|send| send.index != index);
    sends.pending.push(SynchronousSend {
        number,
        index,
        comm: comm.0 as u64,
        peer,
        to: to.0,
        tag,
        followers: 0,
    });
    HAS_ANY.store(true, Ordering::Relaxed);
}

/// Records the start of a synchronous send, by the program's handle.
pub fn add_for(rt: &Runtime, handle: VirtRequest, comm: VirtComm, peer: c_int, tag: c_int) {
    if let Some(index) = index(rt, handle) {
        add(rt, index, comm, peer, tag);
    }
}

/// Records the start of a persistent send, if it is synchronous.
pub fn add_persistent(rt: &Runtime, index: u32, message: &MessageArguments) {
    if get(rt, index).is_some_and(|request| is_synchronous(&request)) {
        add(rt, index, message.comm(), message.peer, message.tag);
    }
}

/// Counts a message as a follower of the incomplete synchronous sends with its envelope.
#[inline(always)]
pub(super) fn count_follower(rt: &Runtime, comm: VirtComm, peer: c_int, tag: c_int) {
    if has_any() {
        count_follower_slow(rt, comm, peer, tag);
    }
}

#[cold]
#[inline(never)]
fn count_follower_slow(rt: &Runtime, comm: VirtComm, peer: c_int, tag: c_int) {
    let table = &mut *rt.requests.table.borrow_mut();
    table.remove_completed();
    let pending = table.requests.synchronous.pending.iter_mut();
    pending
        .filter(|send| (send.comm, send.peer, send.tag) == (comm.0 as u64, peer, tag))
        .for_each(|send| send.followers += 1);
}

/// True if there may be incomplete synchronous sends.
#[inline(always)]
pub fn has_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}

/// Returns all incomplete synchronous sends.
pub fn pending(rt: &Runtime) -> Vec<SynchronousSend> {
    if !has_any() {
        return Vec::new();
    }
    let table = &mut *rt.requests.table.borrow_mut();
    table.remove_completed();
    table.requests.synchronous.pending.clone()
}

/// Sets a send to open if its message `is_unmatched`, else to complete.
pub fn set_matched(rt: &Runtime, send: &SynchronousSend, is_unmatched: bool) {
    let state = match is_unmatched {
        true => RequestState::Open,
        false => done_state(EMPTY_STATUS, SUCCESS),
    };
    set_state(rt, send.index, state);
}

/// Completes a send when its receiver reports that the program has received the message.
///
/// Reports of sends that are complete are ignored.
pub fn complete_received(rt: &Runtime, number: u64, from: Worker) {
    let found = {
        let table = rt.requests.table.borrow();
        let mut pending = table.requests.synchronous.pending.iter();
        pending
            .find(|send| send.number == number && send.to == from.0)
            .copied()
    };
    if let Some(send) = found {
        set_matched(rt, &send, false);
    }
}

/// Updates the flag after requests have been replaced by saved ones.
pub(super) fn update_flag(table: &TableWithReals) {
    HAS_ANY.store(
        !table.requests.synchronous.pending.is_empty(),
        Ordering::Relaxed,
    );
}
