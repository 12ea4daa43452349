//! Posting of receives and persistent requests, by the program and after a rollback.
//!
//! The functions return the real library's return codes, with which the callers check for failures
//! of processes.
#![allow(unsafe_code)]

mod recorded;
#[cfg(test)]
mod tests;

use crate::Runtime;
use crate::drained;
use crate::errors::{ERR_REQUEST, SUCCESS};
use crate::generated::real;
use crate::handles::{real_comm, real_datatype};
use crate::requests::{
    self, MessageArguments, RequestKind, RequestState, SendMode, count_sent, done_state, get,
    set_state, with_real,
};
pub use recorded::create_recorded;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::RealRequest;

/// Posts a receive, or completes it with a matching drained message.
///
/// Returns the state of the request, the real request, and the return code.
pub fn receive(
    rt: &Runtime,
    message_arguments: MessageArguments,
) -> (RequestState, RealRequest, c_int) {
    let mut request = RealRequest(std::ptr::null_mut());
    if let Some(outcome) = drained::take(rt, &message_arguments) {
        return (done_state(outcome.status, outcome.rc), request, SUCCESS);
    }
    // SAFETY: MPI requires the program's buffer, count and datatype to be valid until the receive
    // is complete.
    let rc = unsafe {
        real::PMPI_Irecv(
            message_arguments.buffer as *mut c_void,
            message_arguments.count,
            real_datatype(rt, message_arguments.datatype()),
            message_arguments.peer,
            message_arguments.tag,
            real_comm(rt, message_arguments.comm()),
            &mut request,
        )
    };
    (RequestState::Active, request, rc)
}

/// Creates the real request of a persistent send or receive.
///
/// Returns the request and the return code; a null request and success for all other kinds. The
/// real request of a buffered send is never started: it is created so that the library checks the
/// arguments.
pub fn create_persistent(rt: &Runtime, kind: &RequestKind) -> (RealRequest, c_int) {
    let mut request = RealRequest(std::ptr::null_mut());
    let (RequestKind::PersistentSend(_, message_arguments)
    | RequestKind::PersistentReceive(message_arguments)) = kind
    else {
        return (request, SUCCESS);
    };
    let buffer = message_arguments.buffer as *mut c_void;
    let (datatype, comm) = (
        real_datatype(rt, message_arguments.datatype()),
        real_comm(rt, message_arguments.comm()),
    );
    let (count, peer, tag) = (
        message_arguments.count,
        message_arguments.peer,
        message_arguments.tag,
    );
    // SAFETY: MPI requires the program's buffer, count and datatype to be valid until the request
    // is freed.
    let rc = unsafe {
        match kind {
            RequestKind::PersistentSend(SendMode::Standard, _) => {
                real::PMPI_Send_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            RequestKind::PersistentSend(SendMode::Buffered, _) => {
                real::PMPI_Send_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            RequestKind::PersistentSend(SendMode::Synchronous, _) => {
                real::PMPI_Ssend_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            RequestKind::PersistentSend(SendMode::Ready, _) => {
                real::PMPI_Rsend_init(buffer, count, datatype, peer, tag, comm, &mut request)
            }
            _ => real::PMPI_Recv_init(buffer, count, datatype, peer, tag, comm, &mut request),
        }
    };
    (request, rc)
}

/// Starts a persistent request (`MPI_Start`) other than a buffered send.
///
/// The request gets the latest stamp: it follows all requests that have been started.
pub fn start(rt: &Runtime, index: u32) -> c_int {
    requests::table_mut(rt).restamp(index);
    start_in_place(rt, index)
}

/// Starts a persistent request without a change of its stamp, as after a rollback.
pub fn start_in_place(rt: &Runtime, index: u32) -> c_int {
    let Some(kind) = get(rt, index).map(|request| request.kind) else {
        return ERR_REQUEST;
    };
    if let RequestKind::PersistentReceive(message_arguments) = kind
        && let Some(outcome) = drained::take(rt, &message_arguments)
    {
        set_state(rt, index, done_state(outcome.status, outcome.rc));
        return SUCCESS;
    }
    // A request that another participant has freed was not recreated after a rollback.
    if requests::real_of(rt, index).0.is_null() {
        return ERR_REQUEST;
    }
    // SAFETY: a persistent request of the runtime; MPI requires that it is inactive.
    let rc = with_real(rt, index, |request| unsafe { real::PMPI_Start(request) });
    if rc == SUCCESS {
        set_state(rt, index, RequestState::Active);
        match kind {
            RequestKind::PersistentSend(_, message_arguments) => {
                count_sent(
                    rt,
                    message_arguments.comm(),
                    (message_arguments.peer, message_arguments.tag),
                );
                requests::synchronous::add_persistent(rt, index, &message_arguments);
            }
            RequestKind::Recorded(number) => recorded::count_start(rt, index, number),
            _ => {}
        }
    }
    rc
}
