//! Fast path for the start of persistent sends and receives.
//!
//! The library starts the requests. The runtime only records the start, and counts the messages of
//! sends.

use super::message_counts::receiver;
use super::request::{RequestKind, RequestState, SendMode};
use super::synchronous;
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtRequest, created_index};
use understudy_mpi::real_types::RealRequest;

/// Returns index and real request of an inactive persistent send or receive.
///
/// `None` if the fast path cannot start the request.
#[inline(always)]
pub fn startable(rt: &Runtime, handle: VirtRequest) -> Option<(u32, RealRequest)> {
    let index = created_index(HandleKind::Request, handle.0)?;
    let table = rt.requests.table.borrow();
    let request = table.requests.get(index)?;
    let is_started_by_library = match request.kind {
        RequestKind::PersistentSend(mode, _) => mode != SendMode::Buffered,
        RequestKind::PersistentReceive(_) => true,
        _ => false,
    };
    let real = table.real_requests.get(index as usize)?;
    (is_started_by_library && request.state == RequestState::Inactive).then_some((index, *real))
}

/// Records the start of a [`startable`] request, and counts the message of a send.
///
/// The request gets the latest stamp: it follows all requests that have been started.
#[inline(always)]
pub fn record_started(rt: &Runtime, index: u32) {
    let sent = rt.requests.table.borrow_mut().requests.start(index);
    if let Some(message) = sent {
        let worker = receiver(rt, message.comm(), (message.peer, message.tag));
        rt.requests.table.borrow_mut().requests.count_sent(worker);
        synchronous::add_persistent(rt, index, &message);
    }
}
