//! Combined sends and receives (MPI 4.1, section 3.10).
//!
//! A non-blocking operation consists of two requests: the receive, whose handle the program has,
//! and the send as its companion. The blocking `MPI_Sendrecv_replace` waits for such an operation.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use super::arguments::{message_arguments, outcome, put_status};
use crate::Runtime;
use crate::abi::is_foreign_abi;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::finish;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtRequest, real_comm, real_datatype};
use crate::requests::{self, MessageArguments, RequestKind};
use crate::{completion, cut, posting, world};
use std::any::Any;
use std::ffi::{c_int, c_void};
use understudy_mpi::bytes::Bytes;
use understudy_mpi::real_types::{PROC_NULL, RealDatatype, RealRequest, Status};
use understudy_mpi::{self as mpi, check};

/// Starts the send and the receive; `kept` is dropped when the send has completed.
///
/// # Safety
/// The buffers must be the program's, or lie in `kept`; `request` is the program's address.
unsafe fn start_both_halves(
    rt: &Runtime,
    procedure: Proc,
    (sendbuf, sendcount, real_type): (*const c_void, c_int, RealDatatype),
    (dest, sendtag): (c_int, c_int),
    received: MessageArguments,
    kept: Option<Box<dyn Any + Send>>,
    request: *mut VirtRequest,
) -> c_int {
    let comm = received.comm();
    let mut send = RealRequest(std::ptr::null_mut());
    // SAFETY: MPI requires the program's buffers to be valid, and `kept` lives until the send
    // completes.
    let rc = attempt!(rt, unsafe {
        real::PMPI_Isend(
            sendbuf,
            sendcount,
            real_type,
            dest,
            sendtag,
            real_comm(rt, comm),
            &mut send,
        )
    });
    if rc != SUCCESS {
        return finish(rt, procedure, rc, Some(comm));
    }
    let send = requests::add_send(rt, RequestKind::Send, comm, (dest, sendtag), send);
    if let Some(kept) = kept {
        requests::keep(rt, send, kept);
    }
    let (state, receive, rc) = posting::receive(rt, received);
    let rc = attempt!(rt, rc);
    if rc != SUCCESS {
        let mut send = send;
        requests::free(rt, &mut send);
        return finish(rt, procedure, rc, Some(comm));
    }
    let receive = requests::add_receive(rt, received, state, receive);
    requests::set_companion(rt, receive, send);
    // SAFETY: MPI requires the program's address for the handle to be valid.
    unsafe { request.write(receive) };
    SUCCESS
}

pub unsafe extern "C" fn MPI_Isendrecv(
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
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let received = message_arguments(recvbuf, recvcount, recvtype, source, recvtag, comm);
    let sent = (sendbuf, sendcount, real_datatype(rt, sendtype));
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        start_both_halves(
            rt,
            Proc::MPI_Isendrecv,
            sent,
            (dest, sendtag),
            received,
            None,
            request,
        )
    }
}

/// `MPI_Isendrecv_replace`: sends a packed copy of the buffer.
pub unsafe extern "C" fn MPI_Isendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let received = message_arguments(buf, count, datatype, source, recvtag, comm);
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        isendrecv_replace(
            rt,
            Proc::MPI_Isendrecv_replace,
            (dest, sendtag),
            received,
            request,
        )
    }
}

/// Sends the contents of a buffer, and receives into this buffer.
///
/// `to` contains the destination's rank and the tag. If the program is rewound meanwhile, no
/// request is written.
///
/// # Safety
/// The arguments are the program's.
unsafe fn isendrecv_replace(
    rt: &Runtime,
    procedure: Proc,
    to: (c_int, c_int),
    received: MessageArguments,
    request: *mut VirtRequest,
) -> c_int {
    // SAFETY: MPI requires the program's arguments to be valid; the packed copy is kept.
    unsafe {
        let (packed, bytes) = match pack(rt, &received, to.0) {
            Ok(packed) => packed,
            Err(rc) => return finish(rt, procedure, rc, Some(received.comm())),
        };
        let sent = (packed.as_ptr().cast(), bytes.count(), bytes.datatype());
        start_both_halves(
            rt,
            procedure,
            sent,
            to,
            received,
            Some(Box::new(packed)),
            request,
        )
    }
}

/// Returns the packed contents of a buffer; empty for MPI_PROC_NULL.
///
/// # Safety
/// The buffer is the program's.
pub(super) unsafe fn pack(
    rt: &Runtime,
    from: &MessageArguments,
    dest: c_int,
) -> Result<(Vec<u8>, Bytes), c_int> {
    let real_type = real_datatype(rt, from.datatype());
    let code = |error: mpi::Error| error.code();
    if dest == PROC_NULL {
        return Ok((Vec::new(), Bytes::new(0).map_err(code)?));
    }
    let (own, buffer, mut size) = (world::own_comm(rt), from.buffer as *const c_void, 0);
    // SAFETY: the caller guarantees the arguments; the packed copy has as many bytes as the data.
    unsafe {
        check(real::PMPI_Type_size_x(real_type, &mut size)).map_err(code)?;
        let length = usize::try_from(size).unwrap_or(0) * from.count.max(0) as usize;
        let (mut packed, bytes) = (vec![0u8; length], Bytes::new(length).map_err(code)?);
        let to = packed.as_mut_ptr().cast();
        let rc = match c_int::try_from(length) {
            Ok(length) => real::PMPI_Pack(buffer, from.count, real_type, to, length, &mut 0, own),
            // PMPI_Pack does not accept longer data, but a message of this process to itself may
            // have any length.
            Err(_) => {
                let (mut request, status) =
                    (RealRequest(std::ptr::null_mut()), std::ptr::null_mut());
                check(real::PMPI_Isend(
                    buffer,
                    from.count,
                    real_type,
                    0,
                    0,
                    own,
                    &mut request,
                ))
                .map_err(code)?;
                let rc = real::PMPI_Recv(to, bytes.count(), bytes.datatype(), 0, 0, own, status);
                check(real::PMPI_Wait(&mut request, status)).map_err(code)?;
                rc
            }
        };
        check(rc).map_err(code)?;
        Ok((packed, bytes))
    }
}

/// `MPI_Sendrecv_replace`: sends a packed copy of the buffer.
pub unsafe extern "C" fn MPI_Sendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: VirtComm,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Sendrecv_replace;
    let mut request = requests::null_handle(rt);
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        match requests::resume(rt) {
            Some([Some(started), _]) => request = started,
            _ => {
                outcome!(cut::here(rt));
                let received = message_arguments(buf, count, datatype, source, recvtag, comm);
                let rc = isendrecv_replace(rt, procedure, (dest, sendtag), received, &mut request);
                if rc != SUCCESS || requests::index(rt, request).is_none() {
                    return rc;
                }
            }
        }
        requests::record_call(rt, [Some(request), None]);
        let completed = outcome!(completion::wait_with(rt, &mut request, || cut::meanwhile(
            rt
        )));
        requests::clear_call(rt);
        put_status(status, completed.status);
        if is_foreign_abi() && !status.is_null() {
            // MPICH returns the status of its internal request, with the error field.
            (*status).error = completed.rc;
        }
        finish(rt, procedure, completed.rc, Some(comm))
    }
}
