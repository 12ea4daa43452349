//! Combined sends and receives that do not block (MPI 4.1, section 3.10): two requests, of which the program has one. And the blocking one
//! that is made of them.
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc)]

use super::arguments::{envelope, outcome, put_status};
use crate::attempt;
use crate::calls::runtime;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtRequest, predefined_handle, real_comm, real_datatype};
use crate::raise::finish;
use crate::recovery::Runtime;
use crate::requests::{self, Envelope, Kind, State, count_sent};
use crate::{completion, cut, posting};
use std::any::Any;
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{PROC_NULL, RealRequest, Status};

/// Starts both halves; `kept` stays until the send has ended.
///
/// # Safety
/// The program's arguments, or what is kept.
unsafe fn start(
    rt: &Runtime,
    procedure: Proc,
    (sendbuf, sendcount, sendtype, dest, sendtag): (*const c_void, c_int, VirtDatatype, c_int, c_int),
    received: Envelope,
    kept: Option<Box<dyn Any + Send>>,
    request: *mut VirtRequest,
) -> c_int {
    let comm = received.comm();
    let mut send = RealRequest(std::ptr::null_mut());
    // SAFETY: the caller's promise.
    let rc = attempt!(rt, unsafe {
        real::PMPI_Isend(
            sendbuf,
            sendcount,
            real_datatype(rt, sendtype),
            dest,
            sendtag,
            real_comm(rt, comm),
            &mut send,
        )
    });
    if rc != SUCCESS {
        return finish(rt, procedure, rc, Some(comm));
    }
    count_sent(rt, comm, dest, sendcount, sendtype);
    let send = requests::add(rt, comm, Kind::Send, State::Active, send);
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
    requests::join(rt, receive, send);
    // SAFETY: the program's place for the handle.
    unsafe { request.write(receive) };
    SUCCESS
}

/// `MPI_Isendrecv`
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
    let received = envelope(recvbuf, recvcount, recvtype, source, recvtag, comm);
    let sent = (sendbuf, sendcount, sendtype, dest, sendtag);
    // SAFETY: the program's arguments are handed on.
    unsafe { start(rt, Proc::MPI_Isendrecv, sent, received, None, request) }
}

/// `MPI_Isendrecv_replace`: through a packed copy of what is sent.
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
    let received = envelope(buf, count, datatype, source, recvtag, comm);
    // SAFETY: the program's arguments are handed on.
    unsafe { isendrecv_replace(rt, Proc::MPI_Isendrecv_replace, (dest, sendtag), received, request) }
}

/// Sends what is in the buffer to a rank with a tag, and receives into it. If the program is rewound meanwhile there is
/// no request.
///
/// # Safety
/// The program's arguments.
unsafe fn isendrecv_replace(
    rt: &Runtime,
    procedure: Proc,
    (dest, sendtag): (c_int, c_int),
    received: Envelope,
    request: *mut VirtRequest,
) -> c_int {
    // SAFETY: the program's arguments are handed on; the packed copy is kept.
    unsafe {
        let (packed, length) = match pack(rt, &received, dest) {
            Ok(packed) => packed,
            Err(rc) => return finish(rt, procedure, rc, Some(received.comm())),
        };
        let packed_type = VirtDatatype(predefined_handle(rt, "ompi_mpi_packed"));
        let sent = (packed.as_ptr().cast(), length, packed_type, dest, sendtag);
        start(rt, procedure, sent, received, Some(Box::new(packed)), request)
    }
}

/// What a buffer holds, packed; nothing for MPI_PROC_NULL. And its length.
///
/// # Safety
/// The program's buffer.
pub(super) unsafe fn pack(rt: &Runtime, from: &Envelope, dest: c_int) -> Result<(Vec<u8>, c_int), c_int> {
    let (real_type, real_comm) = (real_datatype(rt, from.datatype()), real_comm(rt, from.comm()));
    let (mut size, mut position) = (0, 0);
    // SAFETY: the caller's promise; the packed copy has the size that MPI says it needs.
    unsafe {
        let rc = real::PMPI_Pack_size(from.count, real_type, real_comm, &mut size);
        let mut packed = vec![0u8; size.max(0) as usize];
        if rc != SUCCESS || dest == PROC_NULL {
            return if rc == SUCCESS { Ok((packed, 0)) } else { Err(rc) };
        }
        let to = packed.as_mut_ptr().cast();
        match real::PMPI_Pack(
            from.buffer as *const c_void,
            from.count,
            real_type,
            to,
            size,
            &mut position,
            real_comm,
        ) {
            SUCCESS => Ok((packed, position)),
            rc => Err(rc),
        }
    }
}

/// `MPI_Sendrecv_replace`: through a packed copy of what is sent.
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
    // SAFETY: the program's arguments are handed on.
    unsafe {
        match requests::resume(rt) {
            Some([Some(begun), _]) => request = begun,
            _ => {
                outcome!(cut::here(rt));
                let received = envelope(buf, count, datatype, source, recvtag, comm);
                let rc = isendrecv_replace(rt, procedure, (dest, sendtag), received, &mut request);
                if rc != SUCCESS || requests::index(rt, request).is_none() {
                    return rc;
                }
            }
        }
        requests::begin(rt, [Some(request), None]);
        let ended = outcome!(completion::wait_with(rt, &mut request, || cut::meanwhile(rt)));
        requests::has_ended(rt);
        put_status(status, ended.status);
        finish(rt, procedure, ended.rc, Some(comm))
    }
}
