//! Receives of messages (MPI 4.1, chapter 3).
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use super::arguments::{message_arguments, outcome, put_status};
use super::point_to_point::{failed, init_persistent};
use super::runtime;
use crate::Runtime;
use crate::error_handling::finish;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtRequest, real_comm, real_datatype};
use crate::requests::{self, MessageArguments, RequestKind, RequestState};
use crate::{arch, attempt, completion, cut, drained, posting, work_flags};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealRequest, Status};

/// `MPI_Recv`: most messages take the fast path, as in `MPI_Send`.
pub unsafe extern "C" fn MPI_Recv(
    buf: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    source: c_int,
    tag: c_int,
    comm: VirtComm,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    if !work_flags::is_any_set() && !drained::has_any() {
        let real_type = real_datatype(rt, datatype);
        let mut received_status = requests::EMPTY_STATUS;
        arch::mark_blocking_wait();
        // SAFETY: MPI requires the program's arguments to be valid.
        let rc = unsafe {
            real::PMPI_Recv(
                buf,
                count,
                real_type,
                source,
                tag,
                real_comm(rt, comm),
                &mut received_status,
            )
        };
        let rc = completion::code_of_completion(rt, rc, &received_status);
        if rc == SUCCESS {
            completion::count_received(rt, comm, &received_status);
            // SAFETY: MPI requires the program's argument to be valid.
            unsafe { put_status(status, received_status) };
            return SUCCESS;
        }
        // SAFETY: MPI requires the program's arguments to be valid.
        return unsafe {
            finish_failed_receive(rt, Proc::MPI_Recv, rc, received_status, comm, status)
        };
    }
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        receive_with_record(
            rt,
            message_arguments(buf, count, datatype, source, tag, comm),
            status,
        )
    }
}

/// Completes a blocking receive that has failed.
///
/// A message that was too long has been received nevertheless.
#[cold]
#[inline(never)]
pub(super) unsafe fn finish_failed_receive(
    rt: &Runtime,
    procedure: Proc,
    rc: c_int,
    received_status: Status,
    comm: VirtComm,
    status: *mut Status,
) -> c_int {
    let rc = attempt!(rt, rc);
    if received_status.source != understudy_mpi::real_types::ANY_SOURCE {
        completion::count_received(rt, comm, &received_status);
    }
    // SAFETY: MPI requires the program's address for the status to be valid or null.
    unsafe { put_status(status, received_status) };
    finish(rt, procedure, rc, Some(comm))
}

/// Receives a message with a recorded request.
///
/// Used while a work flag is set, and while a drained message may exist.
#[inline(never)]
unsafe fn receive_with_record(
    rt: &Runtime,
    message_arguments: MessageArguments,
    status: *mut Status,
) -> c_int {
    let comm = message_arguments.comm();
    let mut handle = match requests::resume(rt) {
        Some([Some(receive), _]) => receive,
        _ => {
            outcome!(cut::here(rt));
            let (state, request, rc) = posting::receive(rt, message_arguments);
            let rc = attempt!(rt, rc);
            if rc != SUCCESS {
                return finish(rt, Proc::MPI_Recv, rc, Some(comm));
            }
            requests::add_receive(rt, message_arguments, state, request)
        }
    };
    requests::record_call(rt, [Some(handle), None]);
    let completed = outcome!(completion::wait_with(rt, &mut handle, || cut::meanwhile(
        rt
    )));
    requests::clear_call(rt);
    // SAFETY: MPI requires the program's address for the status to be valid or null.
    unsafe { put_status(status, completed.status) };
    finish(rt, Proc::MPI_Recv, completed.rc, Some(comm))
}

pub unsafe extern "C" fn MPI_Irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    source: c_int,
    tag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    if drained::has_any() {
        // SAFETY: MPI requires the program's arguments to be valid.
        return unsafe {
            receive_possibly_drained(
                rt,
                message_arguments(buf, count, datatype, source, tag, comm),
                request,
            )
        };
    }
    let mut new = RealRequest(std::ptr::null_mut());
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        let real_type = real_datatype(rt, datatype);
        let rc = real::PMPI_Irecv(
            buf,
            count,
            real_type,
            source,
            tag,
            real_comm(rt, comm),
            &mut new,
        );
        if rc != SUCCESS {
            return failed(rt, Proc::MPI_Irecv, rc, comm);
        }
        let received = message_arguments(buf, count, datatype, source, tag, comm);
        request.write(requests::add_receive(
            rt,
            received,
            RequestState::Active,
            new,
        ));
    }
    SUCCESS
}

/// Implements [`MPI_Irecv`] while a drained message may exist.
#[inline(never)]
unsafe fn receive_possibly_drained(
    rt: &Runtime,
    message_arguments: MessageArguments,
    request: *mut VirtRequest,
) -> c_int {
    let (state, real_request, rc) = posting::receive(rt, message_arguments);
    let rc = attempt!(rt, rc);
    if rc == SUCCESS {
        // SAFETY: MPI requires the program's address for the request to be valid.
        unsafe {
            request.write(requests::add_receive(
                rt,
                message_arguments,
                state,
                real_request,
            ))
        };
    }
    finish(rt, Proc::MPI_Irecv, rc, Some(message_arguments.comm()))
}

pub unsafe extern "C" fn MPI_Recv_init(
    buf: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    source: c_int,
    tag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let kind =
        RequestKind::PersistentReceive(message_arguments(buf, count, datatype, source, tag, comm));
    init_persistent(rt, Proc::MPI_Recv_init, kind, comm, request)
}
