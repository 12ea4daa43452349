//! The short way to the start of persistent sends and receives: only the library has a part in it.

use super::message_counts::receiver;
use super::record::{Kind, Mode, State};
use super::synchronous;
use crate::Runtime;
use crate::generated::HandleKind;
use crate::handles::{VirtRequest, created};
use understudy_mpi::real_types::RealRequest;

/// Index and real request of a persistent send or receive that is not started, if there is a short
/// way to its start.
#[inline(always)]
pub fn startable(rt: &Runtime, handle: VirtRequest) -> Option<(u32, RealRequest)> {
    let index = created(HandleKind::Request, handle.0)?;
    let table = rt.requests.table.borrow();
    let request = table.requests.get(index)?;
    let is_the_librarys = match request.kind {
        Kind::PersistentSend(mode, _) => mode != Mode::Buffered,
        Kind::PersistentReceive(_) => true,
        _ => false,
    };
    let real = table.reals.get(index as usize)?;
    (is_the_librarys && request.state == State::Inactive).then_some((index, *real))
}

/// A request that was [`startable`] has been started, behind all that is posted already: a message
/// is counted as sent.
#[inline(always)]
pub fn is_started(rt: &Runtime, index: u32) {
    let sent = rt.requests.table.borrow_mut().requests.start(index);
    if let Some(message) = sent {
        let worker = receiver(rt, message.comm(), (message.peer, message.tag));
        rt.requests.table.borrow_mut().requests.count_sent(worker);
        synchronous::started(rt, index, &message);
    }
}
