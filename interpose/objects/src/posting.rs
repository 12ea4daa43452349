//! Posting of receives and persistent requests, by the program and after a rollback.
//!
//! Return codes are the real library's; they have not been checked for failures of processes yet.
#![allow(unsafe_code)]

mod recorded;
#[cfg(test)]
mod tests;

use crate::Runtime;
use crate::early;
use crate::errors::{ERR_REQUEST, SUCCESS};
use crate::generated::real;
use crate::handles::{real_comm, real_datatype};
use crate::requests::{
    self, Envelope, Kind, Mode, State, count_sent, done, get, set_state, with_real,
};
pub use recorded::make;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::RealRequest;

/// Posts a receive, or completes it with a matching drained message.
///
/// The last result is the return code.
pub fn receive(rt: &Runtime, envelope: Envelope) -> (State, RealRequest, c_int) {
    let mut request = RealRequest(std::ptr::null_mut());
    if let Some(outcome) = early::take(rt, &envelope) {
        return (done(outcome.status, outcome.rc), request, SUCCESS);
    }
    // SAFETY: the program's buffer, count and type.
    let rc = unsafe {
        real::PMPI_Irecv(
            envelope.buffer as *mut c_void,
            envelope.count,
            real_datatype(rt, envelope.datatype()),
            envelope.peer,
            envelope.tag,
            real_comm(rt, envelope.comm()),
            &mut request,
        )
    };
    (State::Active, request, rc)
}

/// Creates the real persistent request; returns it with the return code.
///
/// The real request of a buffered send is never started: it only checks the arguments.
pub fn persistent(rt: &Runtime, kind: &Kind) -> (RealRequest, c_int) {
    let mut request = RealRequest(std::ptr::null_mut());
    let (Kind::PersistentSend(_, envelope) | Kind::PersistentReceive(envelope)) = kind else {
        return (request, SUCCESS);
    };
    let buffer = envelope.buffer as *mut c_void;
    let (datatype, comm) = (
        real_datatype(rt, envelope.datatype()),
        real_comm(rt, envelope.comm()),
    );
    let (count, peer, tag) = (envelope.count, envelope.peer, envelope.tag);
    // SAFETY: the program's buffer, count and type.
    let rc = unsafe {
        match kind {
            Kind::PersistentSend(Mode::Standard, _) => {
                real::PMPI_Send_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            Kind::PersistentSend(Mode::Buffered, _) => {
                real::PMPI_Send_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            Kind::PersistentSend(Mode::Synchronous, _) => {
                real::PMPI_Ssend_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            Kind::PersistentSend(Mode::Ready, _) => {
                real::PMPI_Rsend_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            _ => real::PMPI_Recv_init(buffer, count, datatype, peer, tag, comm, &mut request),
        }
    };
    (request, rc)
}

/// Starts a persistent request (`MPI_Start`) other than a buffered send.
///
/// In the order of requests it follows all that have been posted.
pub fn start(rt: &Runtime, index: u32) -> c_int {
    requests::table_mut(rt).renew(index);
    start_again(rt, index)
}

/// Starts a persistent request, which keeps its position in the order of requests.
pub fn start_again(rt: &Runtime, index: u32) -> c_int {
    let Some(kind) = get(rt, index).map(|request| request.kind) else {
        return ERR_REQUEST;
    };
    if let Kind::PersistentReceive(envelope) = kind
        && let Some(outcome) = early::take(rt, &envelope)
    {
        set_state(rt, index, done(outcome.status, outcome.rc));
        return SUCCESS;
    }
    // A request that another member has freed was not rebuilt.
    if requests::real_of(rt, index).0.is_null() {
        return ERR_REQUEST;
    }
    // SAFETY: an inactive persistent request.
    let rc = with_real(rt, index, |request| unsafe { real::PMPI_Start(request) });
    if rc == SUCCESS {
        set_state(rt, index, State::Active);
        match kind {
            Kind::PersistentSend(_, envelope) => {
                count_sent(rt, envelope.comm(), (envelope.peer, envelope.tag));
                requests::synchronous::started(rt, index, &envelope);
            }
            Kind::Recorded(number) => recorded::is_started(rt, index, number),
            _ => {}
        }
    }
    rc
}
