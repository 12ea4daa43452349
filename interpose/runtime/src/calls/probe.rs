//! Probes (MPI 4.1, section 3.8): drained messages of the last cut have precedence.
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::arguments::{message_arguments, outcome, put_status};
use crate::Runtime;
use crate::arch::Rewound;
use crate::calls::runtime;
use crate::drained::MatchedLocation;
use crate::error_handling::finish;
use crate::errors::{ERR_REQUEST, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{
    self, VirtComm, VirtDatatype, VirtMessage, VirtRequest, real_comm, real_datatype, real_message,
};
use crate::objects::comm;
use crate::requests::{EMPTY_STATUS, RequestKind, RequestState};
use crate::{completion, cut, drained, recovery, requests};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{PROC_NULL, RealRequest, Status};

/// Returns the status of a matching message, if there is one, and the return code.
fn iprobe(
    rt: &Runtime,
    source: c_int,
    tag: c_int,
    comm: VirtComm,
) -> Result<(Option<Status>, c_int), Rewound> {
    if let Some(status) = drained::peek(rt, comm, source, tag) {
        return Ok((Some(status), SUCCESS));
    }
    let (mut flag, mut status) = (0, EMPTY_STATUS);
    // SAFETY: plain arguments and local variables.
    let rc = recovery::check(rt, unsafe {
        real::PMPI_Iprobe(source, tag, real_comm(rt, comm), &mut flag, &mut status)
    })?;
    Ok(((flag != 0).then_some(status), rc))
}

pub unsafe extern "C" fn MPI_Iprobe(
    source: c_int,
    tag: c_int,
    comm: VirtComm,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let (found, rc) = outcome!(iprobe(rt, source, tag, comm));
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        flag.write(c_int::from(found.is_some()));
        if let Some(found) = found {
            put_status(status, found);
        }
    }
    finish(rt, Proc::MPI_Iprobe, rc, Some(comm))
}

pub unsafe extern "C" fn MPI_Probe(
    source: c_int,
    tag: c_int,
    comm: VirtComm,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    loop {
        let (found, rc) = outcome!(iprobe(rt, source, tag, comm));
        if let Some(found) = found {
            // SAFETY: MPI requires the program's argument to be valid.
            unsafe { put_status(status, found) };
            return SUCCESS;
        }
        if rc != SUCCESS {
            return finish(rt, Proc::MPI_Probe, rc, Some(comm));
        }
        outcome!(cut::meanwhile(rt));
    }
}

fn no_message(rt: &Runtime) -> VirtMessage {
    VirtMessage(handles::predefined_handle(rt, "ompi_message_null"))
}

fn no_process(rt: &Runtime) -> VirtMessage {
    VirtMessage(handles::predefined_handle(rt, "ompi_message_no_proc"))
}

/// Matched message with its status, if there is one, and the return code.
type MatchResult = (Option<(VirtMessage, Status)>, c_int);

/// Matches a message without blocking.
fn improbe(
    rt: &Runtime,
    source: c_int,
    tag: c_int,
    comm: VirtComm,
) -> Result<MatchResult, Rewound> {
    if let Some(claimed) = drained::claim(rt, comm, source, tag) {
        return Ok((Some(claimed), SUCCESS));
    }
    let (mut flag, mut status, mut message) = (0, EMPTY_STATUS, real_message(rt, no_message(rt)));
    // SAFETY: plain arguments and local variables.
    let rc = unsafe {
        real::PMPI_Improbe(
            source,
            tag,
            real_comm(rt, comm),
            &mut flag,
            &mut message,
            &mut status,
        )
    };
    let rc = recovery::check(rt, rc)?;
    if rc != SUCCESS || flag == 0 {
        return Ok((None, rc));
    }
    let handle = if source == PROC_NULL {
        no_process(rt)
    } else {
        drained::enter_matched(rt, comm, message, status)
    };
    Ok((Some((handle, status)), SUCCESS))
}

pub unsafe extern "C" fn MPI_Improbe(
    source: c_int,
    tag: c_int,
    comm: VirtComm,
    flag: *mut c_int,
    message: *mut VirtMessage,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    let (found, rc) = outcome!(improbe(rt, source, tag, comm));
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        flag.write(c_int::from(found.is_some()));
        if let Some((handle, found)) = found {
            message.write(handle);
            put_status(status, found);
        }
    }
    finish(rt, Proc::MPI_Improbe, rc, Some(comm))
}

pub unsafe extern "C" fn MPI_Mprobe(
    source: c_int,
    tag: c_int,
    comm: VirtComm,
    message: *mut VirtMessage,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    outcome!(cut::here(rt));
    loop {
        let (found, rc) = outcome!(improbe(rt, source, tag, comm));
        if let Some((handle, found)) = found {
            // SAFETY: MPI requires the program's arguments to be valid.
            unsafe {
                message.write(handle);
                put_status(status, found);
            }
            return SUCCESS;
        }
        if rc != SUCCESS {
            return finish(rt, Proc::MPI_Mprobe, rc, Some(comm));
        }
        outcome!(cut::meanwhile(rt));
    }
}

/// Starts to receive a matched message.
///
/// Returns the request, or an error code and the communicator.
fn imrecv(
    rt: &Runtime,
    (buf, count, datatype): (*mut c_void, c_int, VirtDatatype),
    message: VirtMessage,
) -> Result<Result<VirtRequest, (c_int, Option<VirtComm>)>, Rewound> {
    if message == no_process(rt) {
        let status = Status {
            source: PROC_NULL,
            ..EMPTY_STATUS
        };
        let kind = RequestKind::Receive(message_arguments(
            buf,
            count,
            datatype,
            PROC_NULL,
            understudy_mpi::real_types::ANY_TAG,
            comm::world_handle(rt),
        ));
        return Ok(Ok(requests::add_done(
            rt,
            comm::world_handle(rt),
            kind,
            status,
            SUCCESS,
        )));
    }
    match drained::take_matched(rt, message) {
        None => Ok(Err((ERR_REQUEST, None))),
        Some(MatchedLocation::Drained(drained)) => {
            let message_arguments = message_arguments(
                buf,
                count,
                datatype,
                drained.source,
                drained.tag,
                VirtComm(drained.comm as *mut c_void),
            );
            let completed = drained::deliver(rt, drained, &message_arguments);
            Ok(Ok(requests::add_done(
                rt,
                message_arguments.comm(),
                RequestKind::Receive(message_arguments),
                completed.status,
                completed.rc,
            )))
        }
        Some(MatchedLocation::Real(mut matched, comm, status)) => {
            let mut request = RealRequest(std::ptr::null_mut());
            // SAFETY: a matched message; MPI requires the program's buffer to be valid.
            let rc = unsafe {
                real::PMPI_Imrecv(
                    buf,
                    count,
                    real_datatype(rt, datatype),
                    &mut matched,
                    &mut request,
                )
            };
            let rc = recovery::check(rt, rc)?;
            if rc != SUCCESS {
                return Ok(Err((rc, Some(comm))));
            }
            let message_arguments =
                message_arguments(buf, count, datatype, status.source, status.tag, comm);
            Ok(Ok(requests::add_receive(
                rt,
                message_arguments,
                RequestState::Active,
                request,
            )))
        }
    }
}

/// `MPI_Imrecv`: the message has been matched, so the receive completes before the next cut.
pub unsafe extern "C" fn MPI_Imrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    message: *mut VirtMessage,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        match outcome!(imrecv(rt, (buf, count, datatype), *message)) {
            Ok(handle) => request.write(handle),
            Err((rc, comm)) => return finish(rt, Proc::MPI_Imrecv, rc, comm),
        }
        message.write(no_message(rt));
    }
    SUCCESS
}

pub unsafe extern "C" fn MPI_Mrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: VirtDatatype,
    message: *mut VirtMessage,
    status: *mut Status,
) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's arguments to be valid.
    unsafe {
        let mut handle = match outcome!(imrecv(rt, (buf, count, datatype), *message)) {
            Ok(handle) => handle,
            Err((rc, comm)) => return finish(rt, Proc::MPI_Mrecv, rc, comm),
        };
        let completed = outcome!(completion::wait(rt, &mut handle));
        message.write(no_message(rt));
        put_status(status, completed.status);
        finish(rt, Proc::MPI_Mrecv, completed.rc, completed.comm)
    }
}
