//! Sends combined with receives (MPI 4.1, 3.10): `MPI_Sendrecv`.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use super::arguments::{message_arguments, outcome, put_status};
use super::point_to_point::SendArguments;
use super::receives::finish_failed_receive;
use super::runtime;
use crate::Runtime;
use crate::error_handling::finish;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, real_comm, real_datatype};
use crate::requests::{self, MessageArguments, RequestKind};
use crate::{arch, attempt, completion, cut, drained, posting, work_flags};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealRequest, Status};

pub unsafe extern "C" fn MPI_Sendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: VirtDatatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: VirtDatatype,
    source: c_int,
    recvtag: c_int,
    comm: VirtComm,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    if !work_flags::is_any_set() && !drained::has_any() {
        let (send_type, receive_type) = (real_datatype(rt, sendtype), real_datatype(rt, recvtype));
        let mut received_status = requests::EMPTY_STATUS;
        arch::mark_blocking_wait();
        // SAFETY: MPI requires the program's arguments to be valid.
        let rc = unsafe {
            real::PMPI_Sendrecv(
                sendbuf,
                sendcount,
                send_type,
                dest,
                sendtag,
                recvbuf,
                recvcount,
                receive_type,
                source,
                recvtag,
                real_comm(rt, comm),
                &mut received_status,
            )
        };
        let rc = completion::code_of_completion(rt, rc, &received_status);
        // A message that was too long has been received, and the other message has been sent.
        if rc == SUCCESS || received_status.source != understudy_mpi::real_types::ANY_SOURCE {
            requests::count_sent(rt, comm, (dest, sendtag));
        }
        if rc != SUCCESS {
            // SAFETY: MPI requires the program's arguments to be valid.
            return unsafe {
                finish_failed_receive(rt, Proc::MPI_Sendrecv, rc, received_status, comm, status)
            };
        }
        completion::count_received(rt, comm, &received_status);
        // SAFETY: MPI requires the program's arguments to be valid.
        unsafe { put_status(status, received_status) };
        return SUCCESS;
    }
    let sent = (sendbuf, sendcount, sendtype, dest, sendtag, comm);
    let received = message_arguments(recvbuf, recvcount, recvtype, source, recvtag, comm);
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe { exchange_on_record(rt, sent, received, status) }
}

/// Exchanges messages with recorded requests.
///
/// Used while a work flag is set, and while a drained message may exist.
#[inline(never)]
unsafe fn exchange_on_record(
    rt: &Runtime,
    sent: SendArguments,
    received: MessageArguments,
    status: *mut Status,
) -> c_int {
    const PROCEDURE: Proc = Proc::MPI_Sendrecv;
    let (buf, count, datatype, dest, tag, comm) = sent;
    let [mut receive, mut send] = match requests::resume(rt) {
        Some([Some(receive), Some(send)]) => [receive, send],
        _ => {
            outcome!(cut::here(rt));
            let (state, request, rc) = posting::receive(rt, received);
            let rc = attempt!(rt, rc);
            if rc != SUCCESS {
                return finish(rt, PROCEDURE, rc, Some(comm));
            }
            let mut receive = requests::add_receive(rt, received, state, request);
            let mut request = RealRequest(std::ptr::null_mut());
            let real_type = real_datatype(rt, datatype);
            // SAFETY: MPI requires the program's arguments to be valid.
            let rc = attempt!(rt, unsafe {
                real::PMPI_Isend(
                    buf,
                    count,
                    real_type,
                    dest,
                    tag,
                    real_comm(rt, comm),
                    &mut request,
                )
            });
            if rc != SUCCESS {
                outcome!(completion::abandon(rt, &mut receive));
                return finish(rt, PROCEDURE, rc, Some(comm));
            }
            let send = requests::add_send(rt, RequestKind::Send, comm, (dest, tag), request);
            [receive, send]
        }
    };
    requests::record_call(rt, [Some(receive), Some(send)]);
    // No request is released before both have completed: a cut in between would record only one
    // request, and the repeated call needs both.
    while !outcome!(completion::is_complete(rt, send)) {
        outcome!(cut::meanwhile(rt));
    }
    let failed = completion::code(rt, send);
    while failed == SUCCESS && !outcome!(completion::is_complete(rt, receive)) {
        outcome!(cut::meanwhile(rt));
    }
    requests::clear_call(rt);
    outcome!(completion::wait(rt, &mut send));
    if failed != SUCCESS {
        outcome!(completion::abandon(rt, &mut receive));
        return finish(rt, PROCEDURE, failed, Some(comm));
    }
    let completed = outcome!(completion::wait(rt, &mut receive));
    // SAFETY: MPI requires the program's address for the status to be valid or null.
    unsafe { put_status(status, completed.status) };
    finish(rt, PROCEDURE, completed.rc, Some(comm))
}
