//! Point-to-point communication (MPI 4.1, chapter 3).
//!
//! A blocking procedure calls the library's blocking procedure, unless a work flag is set, for
//! example because a checkpoint is under way or workers agree on a cut. While a work flag is set,
//! the procedure starts the non-blocking variant with a recorded request (see `requests`) and
//! polls, so that each poll also advances the checkpoint. A cut may be taken between two polls: the
//! repeated call then finds the requests that it has started.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use super::arguments::{message_arguments, outcome};
use super::mpi_memory::buffered_send;
use crate::Runtime;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::finish;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtRequest, real_comm, real_datatype};
use crate::requests::{self, RequestKind, RequestState};
use crate::{arch, completion, cut, posting, work_flags};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealComm, RealDatatype, RealRequest};

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
/// Arguments of a send.
pub(super) type SendArguments = (*const c_void, c_int, VirtDatatype, c_int, c_int, VirtComm);

/// Returns the kind of a send's request.
#[inline(always)]
fn request_kind(procedure: Proc) -> RequestKind {
    match procedure {
        Proc::MPI_Ssend | Proc::MPI_Issend => RequestKind::Synchronous,
        _ => RequestKind::Send,
    }
}

/// Sends a message: by the library's blocking procedure, if no work flag is set.
#[inline(always)]
unsafe fn send(
    rt: &Runtime,
    procedure: Proc,
    blocking: RealSend,
    nonblocking: RealIsend,
    message: SendArguments,
) -> c_int {
    let (buf, count, datatype, dest, tag, comm) = message;
    if !work_flags::is_any_set() {
        let real_type = real_datatype(rt, datatype);
        arch::mark_blocking_wait();
        // SAFETY: MPI requires the program's arguments to be valid.
        let rc = unsafe { blocking(buf, count, real_type, dest, tag, real_comm(rt, comm)) };
        if rc == SUCCESS {
            requests::count_sent(rt, comm, (dest, tag));
            return SUCCESS;
        }
        return failed(rt, procedure, rc, comm);
    }
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe { send_with_record(rt, procedure, nonblocking, message) }
}

/// Completes a procedure that has failed.
#[cold]
#[inline(never)]
pub(super) fn failed(rt: &Runtime, procedure: Proc, rc: c_int, comm: VirtComm) -> c_int {
    finish(rt, procedure, attempt!(rt, rc), Some(comm))
}

/// Sends a message with a recorded request.
///
/// Used while a work flag is set.
#[inline(never)]
unsafe fn send_with_record(
    rt: &Runtime,
    procedure: Proc,
    nonblocking: RealIsend,
    message: SendArguments,
) -> c_int {
    let (buf, count, datatype, dest, tag, comm) = message;
    let (real_type, real_comm) = (real_datatype(rt, datatype), real_comm(rt, comm));
    let mut handle = match requests::resume(rt) {
        Some([Some(send), _]) => send,
        _ => {
            outcome!(cut::here(rt));
            let mut request = RealRequest(std::ptr::null_mut());
            // SAFETY: MPI requires the program's arguments to be valid.
            let rc = attempt!(rt, unsafe {
                nonblocking(buf, count, real_type, dest, tag, real_comm, &mut request)
            });
            if rc != SUCCESS {
                return finish(rt, procedure, rc, Some(comm));
            }
            requests::add_send(rt, request_kind(procedure), comm, (dest, tag), request)
        }
    };
    requests::record_call(rt, [Some(handle), None]);
    let completed = outcome!(completion::wait_with(rt, &mut handle, || cut::meanwhile(
        rt
    )));
    requests::clear_call(rt);
    finish(rt, procedure, completed.rc, Some(comm))
}

#[inline(always)]
unsafe fn isend(
    rt: &Runtime,
    procedure: Proc,
    nonblocking: RealIsend,
    (buf, count, datatype, dest, tag, comm): SendArguments,
    handle: *mut VirtRequest,
) -> c_int {
    let mut request = RealRequest(std::ptr::null_mut());
    // SAFETY: MPI requires the program's arguments to be valid.
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
        let sent = requests::add_send(rt, request_kind(procedure), comm, (dest, tag), request);
        handle.write(sent);
    }
    SUCCESS
}

macro_rules! sends {
    ($($name:ident, $real:ident, $iname:ident, $ireal:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub unsafe extern "C" fn $name(
            buf: *const c_void, count: c_int, datatype: VirtDatatype, dest: c_int, tag: c_int,
            comm: VirtComm,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            // SAFETY: MPI requires the program's arguments to be valid.
            unsafe {
                send(
                    rt, Proc::$name, real::$real, real::$ireal,
                    (buf, count, datatype, dest, tag, comm)
                )
            }
        }
        #[doc = concat!("`", stringify!($iname), "`")]
        pub unsafe extern "C" fn $iname(
            buf: *const c_void, count: c_int, datatype: VirtDatatype, dest: c_int, tag: c_int,
            comm: VirtComm, request: *mut VirtRequest,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            // SAFETY: MPI requires the program's arguments to be valid.
            unsafe {
                isend(
                    rt, Proc::$iname, real::$ireal, (buf, count, datatype, dest, tag, comm), request
                )
            }
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
    let message = message_arguments(buf.cast_mut(), count, datatype, dest, tag, comm);
    finish(
        rt,
        Proc::MPI_Bsend,
        outcome!(buffered_send(rt, &message)),
        Some(comm),
    )
}

/// `MPI_Ibsend`: the request is complete at once, since the message has been copied.
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
    let message = message_arguments(buf.cast_mut(), count, datatype, dest, tag, comm);
    let rc = outcome!(buffered_send(rt, &message));
    if rc == SUCCESS {
        // SAFETY: MPI requires the program's argument to be valid.
        unsafe {
            request.write(requests::add_done(
                rt,
                comm,
                RequestKind::Send,
                requests::EMPTY_STATUS,
                SUCCESS,
            ))
        };
    }
    finish(rt, Proc::MPI_Ibsend, rc, Some(comm))
}

/// Creates a persistent request of this kind.
pub(super) fn init_persistent(
    rt: &Runtime,
    procedure: Proc,
    kind: RequestKind,
    comm: VirtComm,
    handle: *mut VirtRequest,
) -> c_int {
    let (request, rc) = posting::create_persistent(rt, &kind);
    let rc = attempt!(rt, rc);
    if rc != SUCCESS {
        return finish(rt, procedure, rc, Some(comm));
    }
    // SAFETY: MPI requires the program's argument to be valid.
    unsafe {
        handle.write(requests::add(
            rt,
            comm,
            kind,
            RequestState::Inactive,
            request,
        ))
    };
    SUCCESS
}
