//! Synchronous sends (MPI 4.1, 3.4), which complete when a matching receive has started.
//!
//! A cut drains messages that no receive has matched (`drain` of the runtime), so the library
//! completes their sends. For the program they are not complete: such a request is
//! [open](State::Open) until the receiver reports that the program has received the message.

use super::record::{EMPTY, Envelope, Kind, Mode, Request, State, done};
use super::request_entries::{get, index, set_state};
use super::request_table::Table;
use super::synchronous_sends::Synchronous;
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
        Kind::Synchronous | Kind::PersistentSend(Mode::Synchronous, _)
    )
}

impl Table {
    /// Removes sends that are complete.
    fn sweep(&mut self) {
        let requests = &self.requests;
        let has_ended = |send: &Synchronous| {
            let request = requests
                .get(send.index)
                .filter(|request| is_synchronous(request));
            request.is_none_or(|request| !request.is_under_way())
        };
        let mut pending = requests.synchronous.pending.clone();
        pending.retain(|send| !has_ended(send));
        HAS_ANY.store(!pending.is_empty(), Ordering::Relaxed);
        self.requests.synchronous.pending = pending;
    }
}

/// Records the start of a synchronous send.
///
/// Messages that were sent earlier do not count as its followers.
pub fn add(rt: &Runtime, index: u32, comm: VirtComm, peer: c_int, tag: c_int) {
    let Some(to) = comm::worker_of(rt, comm, peer) else {
        return;
    };
    let sends = &mut rt.requests.table.borrow_mut().requests.synchronous;
    let number = sends.next;
    sends.next += 1;
    sends.pending.retain(|send| send.index != index);
    sends.pending.push(Synchronous {
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

/// Records the start of a persistent send.
pub fn started(rt: &Runtime, index: u32, message: &Envelope) {
    if get(rt, index).is_some_and(|request| is_synchronous(&request)) {
        add(rt, index, message.comm(), message.peer, message.tag);
    }
}

/// Counts a message that was sent after incomplete synchronous sends.
#[inline(always)]
pub(super) fn follow(rt: &Runtime, comm: VirtComm, peer: c_int, tag: c_int) {
    if are_any() {
        note(rt, comm, peer, tag);
    }
}

#[cold]
#[inline(never)]
fn note(rt: &Runtime, comm: VirtComm, peer: c_int, tag: c_int) {
    let table = &mut *rt.requests.table.borrow_mut();
    table.sweep();
    let pending = table.requests.synchronous.pending.iter_mut();
    pending
        .filter(|send| (send.comm, send.peer, send.tag) == (comm.0 as u64, peer, tag))
        .for_each(|send| send.followers += 1);
}

/// True if there may be incomplete synchronous sends.
#[inline(always)]
pub fn are_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}

/// Returns all incomplete synchronous sends.
pub fn pending(rt: &Runtime) -> Vec<Synchronous> {
    if !are_any() {
        return Vec::new();
    }
    let table = &mut *rt.requests.table.borrow_mut();
    table.sweep();
    table.requests.synchronous.pending.clone()
}

/// Sets the state of a send after a cut.
///
/// `waits` is true if no receive has matched the message.
pub fn settle(rt: &Runtime, send: &Synchronous, waits: bool) {
    let state = match waits {
        true => State::Open,
        false => done(EMPTY, SUCCESS),
    };
    set_state(rt, send.index, state);
}

/// Completes a send when its receiver reports that the program has received the message.
///
/// Reports of sends that are complete are ignored.
pub fn is_received(rt: &Runtime, number: u64, from: Worker) {
    let found = {
        let table = rt.requests.table.borrow();
        let mut pending = table.requests.synchronous.pending.iter();
        pending
            .find(|send| send.number == number && send.to == from.0)
            .copied()
    };
    if let Some(send) = found {
        settle(rt, &send, false);
    }
}

/// Updates the flag after requests have been replaced by saved ones.
pub(super) fn restored(table: &Table) {
    HAS_ANY.store(
        !table.requests.synchronous.pending.is_empty(),
        Ordering::Relaxed,
    );
}
