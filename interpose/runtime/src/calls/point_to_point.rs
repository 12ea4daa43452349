//! Point-to-point communication (MPI 4.1, chapter 3).
//!
//! Blocking procedures are the library's own. While a checkpoint is under way, or workers agree on one, they run as their non-blocking
//! twins on record (see `requests`), so that each look at the message helps the checkpoint along. A cut may be taken between two
//! looks: the call that is made again then finds what it has begun.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use super::arguments::{envelope, outcome, put_status};
use super::memory::buffered_send;
use crate::Runtime;
use crate::attempt;
use crate::calls::runtime;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtRequest, real_comm, real_datatype};
use crate::raise::finish;
use crate::requests::{self, Envelope, Kind, State};
use crate::{arch, attention, completion, cut, early, posting};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealComm, RealDatatype, RealRequest, Status};

type RealSend =
    unsafe extern "C" fn(*const c_void, c_int, RealDatatype, c_int, c_int, RealComm) -> c_int;
type RealIsend = unsafe extern "C" fn(
    *const c_void,
    c_int,
    RealDatatype,
    c_int,
    c_int,
    RealComm,
    *mut RealRequest,
) -> c_int;
/// The arguments of a send.
type Message = (*const c_void, c_int, VirtDatatype, c_int, c_int, VirtComm);

/// What the request of a send is.
#[inline(always)]
fn kind(procedure: Proc) -> Kind {
    match procedure {
        Proc::MPI_Ssend | Proc::MPI_Issend => Kind::Synchronous,
        _ => Kind::Send,
    }
}

/// The way of most messages, and nothing else, so that it stays short.
#[inline(always)]
unsafe fn send(
    rt: &Runtime,
    procedure: Proc,
    blocking: RealSend,
    nonblocking: RealIsend,
    message: Message,
) -> c_int {
    let (buf, count, datatype, dest, tag, comm) = message;
    if !attention::is_on() {
        let real_type = real_datatype(rt, datatype);
        arch::will_block();
        // SAFETY: the program's arguments are handed on.
        let rc = unsafe { blocking(buf, count, real_type, dest, tag, real_comm(rt, comm)) };
        if rc == SUCCESS {
            requests::count_sent(rt, comm, (dest, tag));
            return SUCCESS;
        }
        return failed(rt, procedure, rc, comm);
    }
    // SAFETY: as above.
    unsafe { send_on_record(rt, procedure, nonblocking, message) }
}

/// The end of a procedure that has not succeeded.
#[cold]
#[inline(never)]
fn failed(rt: &Runtime, procedure: Proc, rc: c_int, comm: VirtComm) -> c_int {
    finish(rt, procedure, attempt!(rt, rc), Some(comm))
}

/// While a checkpoint is under way, or workers agree on one.
#[inline(never)]
unsafe fn send_on_record(
    rt: &Runtime,
    procedure: Proc,
    nonblocking: RealIsend,
    message: Message,
) -> c_int {
    let (buf, count, datatype, dest, tag, comm) = message;
    let (real_type, real_comm) = (real_datatype(rt, datatype), real_comm(rt, comm));
    // SAFETY: the program's arguments are handed on.
    let mut handle = match requests::resume(rt) {
        Some([Some(send), _]) => send,
        _ => {
            outcome!(cut::here(rt));
            let mut request = RealRequest(std::ptr::null_mut());
            // SAFETY: the program's arguments are handed on.
            let rc = attempt!(rt, unsafe {
                nonblocking(buf, count, real_type, dest, tag, real_comm, &mut request)
            });
            if rc != SUCCESS {
                return finish(rt, procedure, rc, Some(comm));
            }
            requests::add_send(rt, kind(procedure), comm, (dest, tag), request)
        }
    };
    requests::begin(rt, [Some(handle), None]);
    let ended = outcome!(completion::wait_with(rt, &mut handle, || cut::meanwhile(
        rt
    )));
    requests::has_ended(rt);
    finish(rt, procedure, ended.rc, Some(comm))
}

#[inline(always)]
unsafe fn isend(
    rt: &Runtime,
    procedure: Proc,
    nonblocking: RealIsend,
    (buf, count, datatype, dest, tag, comm): Message,
    handle: *mut VirtRequest,
) -> c_int {
    let mut request = RealRequest(std::ptr::null_mut());
    // SAFETY: the program's arguments are handed on.
    unsafe {
        let real_type = real_datatype(rt, datatype);
        let rc = nonblocking(
            buf,
            count,
            real_type,
            dest,
            tag,
            real_comm(rt, comm),
            &mut request,
        );
        if rc != SUCCESS {
            return failed(rt, procedure, rc, comm);
        }
        let sent = requests::add_send(rt, kind(procedure), comm, (dest, tag), request);
        handle.write(sent);
    }
    SUCCESS
}

macro_rules! sends {
    ($($name:ident, $real:ident, $iname:ident, $ireal:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub unsafe extern "C" fn $name(
            buf: *const c_void, count: c_int, datatype: VirtDatatype, dest: c_int, tag: c_int, comm: VirtComm,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            // SAFETY: the program's arguments are handed on.
            unsafe { send(rt, Proc::$name, real::$real, real::$ireal, (buf, count, datatype, dest, tag, comm)) }
        }
        #[doc = concat!("`", stringify!($iname), "`")]
        pub unsafe extern "C" fn $iname(
            buf: *const c_void, count: c_int, datatype: VirtDatatype, dest: c_int, tag: c_int, comm: VirtComm,
            request: *mut VirtRequest,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            // SAFETY: the program's arguments are handed on.
            unsafe { isend(rt, Proc::$iname, real::$ireal, (buf, count, datatype, dest, tag, comm), request) }
        }
    )*};
}

sends! {
    MPI_Send, PMPI_Send, MPI_Isend, PMPI_Isend;
    MPI_Ssend, PMPI_Ssend, MPI_Issend, PMPI_Issend;
    MPI_Rsend, PMPI_Rsend, MPI_Irsend, PMPI_Irsend;
}

pub unsafe extern "C" fn MPI_Bsend(
    buf: *const c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    tag: c_int,
    comm: VirtComm,
) -> c_int {
    let rt = runtime();
    let message = envelope(buf.cast_mut(), count, datatype, dest, tag, comm);
    finish(
        rt,
        Proc::MPI_Bsend,
        outcome!(buffered_send(rt, &message)),
        Some(comm),
    )
}

/// `MPI_Ibsend`: it has ended when the copy is made.
pub unsafe extern "C" fn MPI_Ibsend(
    buf: *const c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    tag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let message = envelope(buf.cast_mut(), count, datatype, dest, tag, comm);
    let rc = outcome!(buffered_send(rt, &message));
    if rc == SUCCESS {
        // SAFETY: the program's argument.
        unsafe {
            request.write(requests::add_done(
                rt,
                comm,
                Kind::Send,
                requests::EMPTY,
                SUCCESS,
            ))
        };
    }
    finish(rt, Proc::MPI_Ibsend, rc, Some(comm))
}

/// `MPI_Recv`: as in [`send`], most messages go the short way.
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
    if !attention::is_on() && !early::has_any() {
        let real_type = real_datatype(rt, datatype);
        let mut got = requests::EMPTY;
        arch::will_block();
        // SAFETY: the program's arguments are handed on.
        let rc = unsafe {
            real::PMPI_Recv(
                buf,
                count,
                real_type,
                source,
                tag,
                real_comm(rt, comm),
                &mut got,
            )
        };
        if rc == SUCCESS {
            completion::count_received(rt, comm, &got);
            // SAFETY: the program's argument.
            unsafe { put_status(status, got) };
            return SUCCESS;
        }
        // SAFETY: as above.
        return unsafe { received_badly(rt, Proc::MPI_Recv, rc, got, comm, status) };
    }
    // SAFETY: the program's arguments are handed on.
    unsafe {
        receive_on_record(
            rt,
            envelope(buf, count, datatype, source, tag, comm),
            status,
        )
    }
}

/// The end of a blocking receive that has not succeeded: a message that was too long has been received all the same.
#[cold]
#[inline(never)]
unsafe fn received_badly(
    rt: &Runtime,
    procedure: Proc,
    rc: c_int,
    got: Status,
    comm: VirtComm,
    status: *mut Status,
) -> c_int {
    let rc = attempt!(rt, rc);
    if got.source != understudy_mpi::real_types::ANY_SOURCE {
        completion::count_received(rt, comm, &got);
    }
    // SAFETY: handed on to the caller.
    unsafe { put_status(status, got) };
    finish(rt, procedure, rc, Some(comm))
}

/// While a checkpoint is under way, and as long as there may be an early message.
#[inline(never)]
unsafe fn receive_on_record(rt: &Runtime, envelope: Envelope, status: *mut Status) -> c_int {
    let comm = envelope.comm();
    let mut handle = match requests::resume(rt) {
        Some([Some(receive), _]) => receive,
        _ => {
            outcome!(cut::here(rt));
            let (state, request, rc) = posting::receive(rt, envelope);
            let rc = attempt!(rt, rc);
            if rc != SUCCESS {
                return finish(rt, Proc::MPI_Recv, rc, Some(comm));
            }
            requests::add_receive(rt, envelope, state, request)
        }
    };
    requests::begin(rt, [Some(handle), None]);
    let ended = outcome!(completion::wait_with(rt, &mut handle, || cut::meanwhile(
        rt
    )));
    requests::has_ended(rt);
    // SAFETY: handed on to the caller.
    unsafe { put_status(status, ended.status) };
    finish(rt, Proc::MPI_Recv, ended.rc, Some(comm))
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
    if early::has_any() {
        // SAFETY: the program's arguments are handed on.
        return unsafe {
            receive_from_early(
                rt,
                envelope(buf, count, datatype, source, tag, comm),
                request,
            )
        };
    }
    let mut new = RealRequest(std::ptr::null_mut());
    // SAFETY: the program's arguments are handed on.
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
        let received = envelope(buf, count, datatype, source, tag, comm);
        request.write(requests::add_receive(rt, received, State::Active, new));
    }
    SUCCESS
}

/// [`MPI_Irecv`] as long as there may be an early message.
#[inline(never)]
unsafe fn receive_from_early(rt: &Runtime, envelope: Envelope, request: *mut VirtRequest) -> c_int {
    let (state, real_request, rc) = posting::receive(rt, envelope);
    let rc = attempt!(rt, rc);
    if rc == SUCCESS {
        // SAFETY: handed on to the caller.
        unsafe { request.write(requests::add_receive(rt, envelope, state, real_request)) };
    }
    finish(rt, Proc::MPI_Irecv, rc, Some(envelope.comm()))
}

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
    if !attention::is_on() && !early::has_any() {
        let (send_type, receive_type) = (real_datatype(rt, sendtype), real_datatype(rt, recvtype));
        let mut got = requests::EMPTY;
        arch::will_block();
        // SAFETY: the program's arguments are handed on.
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
                &mut got,
            )
        };
        // A message that was too long has been received all the same, and the other one has been sent.
        if rc == SUCCESS || got.source != understudy_mpi::real_types::ANY_SOURCE {
            requests::count_sent(rt, comm, (dest, sendtag));
        }
        if rc != SUCCESS {
            // SAFETY: as above.
            return unsafe { received_badly(rt, Proc::MPI_Sendrecv, rc, got, comm, status) };
        }
        completion::count_received(rt, comm, &got);
        // SAFETY: as above.
        unsafe { put_status(status, got) };
        return SUCCESS;
    }
    let sent = (sendbuf, sendcount, sendtype, dest, sendtag, comm);
    let received = envelope(recvbuf, recvcount, recvtype, source, recvtag, comm);
    // SAFETY: as above.
    unsafe { exchange_on_record(rt, sent, received, status) }
}

/// While a checkpoint is under way, or workers agree on one, and as long as there may be an early message.
#[inline(never)]
unsafe fn exchange_on_record(
    rt: &Runtime,
    sent: Message,
    received: Envelope,
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
            // SAFETY: the program's arguments are handed on.
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
            let send = requests::add_send(rt, Kind::Send, comm, (dest, tag), request);
            [receive, send]
        }
    };
    requests::begin(rt, [Some(receive), Some(send)]);
    // Neither is taken before both have ended: a cut would know of one only.
    while !outcome!(completion::has_come(rt, send)) {
        outcome!(cut::meanwhile(rt));
    }
    let failed = completion::code(rt, send);
    while failed == SUCCESS && !outcome!(completion::has_come(rt, receive)) {
        outcome!(cut::meanwhile(rt));
    }
    requests::has_ended(rt);
    outcome!(completion::wait(rt, &mut send));
    if failed != SUCCESS {
        outcome!(completion::abandon(rt, &mut receive));
        return finish(rt, PROCEDURE, failed, Some(comm));
    }
    let got = outcome!(completion::wait(rt, &mut receive));
    // SAFETY: handed on to the caller.
    unsafe { put_status(status, got.status) };
    finish(rt, PROCEDURE, got.rc, Some(comm))
}

/// Makes a persistent request of this kind.
pub(super) fn init_persistent(
    rt: &Runtime,
    procedure: Proc,
    kind: Kind,
    comm: VirtComm,
    handle: *mut VirtRequest,
) -> c_int {
    let (request, rc) = posting::persistent(rt, &kind);
    let rc = attempt!(rt, rc);
    if rc != SUCCESS {
        return finish(rt, procedure, rc, Some(comm));
    }
    // SAFETY: the program's argument.
    unsafe { handle.write(requests::add(rt, comm, kind, State::Inactive, request)) };
    SUCCESS
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
    let kind = Kind::PersistentReceive(envelope(buf, count, datatype, source, tag, comm));
    init_persistent(rt, Proc::MPI_Recv_init, kind, comm, request)
}
