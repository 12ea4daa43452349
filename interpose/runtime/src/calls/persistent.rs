//! Persistent requests (MPI 4.1, section 3.9).
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc)]

use super::point_to_point::{outcome, persistent_send};
use crate::errors::{ERR_REQUEST, SUCCESS, finish};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtDatatype, VirtRequest};
use crate::requests::{self, Mode};
use std::ffi::{c_int, c_void};

/// `MPI_Send_init`
pub unsafe extern "C" fn MPI_Send_init(
    buf: *const c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    tag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    persistent_send(
        Proc::MPI_Send_init,
        Mode::Standard,
        (buf, count, datatype, dest, tag, comm),
        request,
    )
}

/// `MPI_Bsend_init`
pub unsafe extern "C" fn MPI_Bsend_init(
    buf: *const c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    tag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    persistent_send(
        Proc::MPI_Bsend_init,
        Mode::Buffered,
        (buf, count, datatype, dest, tag, comm),
        request,
    )
}

/// `MPI_Ssend_init`
pub unsafe extern "C" fn MPI_Ssend_init(
    buf: *const c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    tag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    persistent_send(
        Proc::MPI_Ssend_init,
        Mode::Synchronous,
        (buf, count, datatype, dest, tag, comm),
        request,
    )
}

/// `MPI_Rsend_init`
pub unsafe extern "C" fn MPI_Rsend_init(
    buf: *const c_void,
    count: c_int,
    datatype: VirtDatatype,
    dest: c_int,
    tag: c_int,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    persistent_send(
        Proc::MPI_Rsend_init,
        Mode::Ready,
        (buf, count, datatype, dest, tag, comm),
        request,
    )
}

fn start(handle: VirtRequest) -> Result<c_int, crate::recovery::Rewound> {
    match requests::index(handle) {
        Some(index) if requests::is_inactive(index) => requests::start(index),
        _ => Ok(ERR_REQUEST),
    }
}

/// `MPI_Start`
pub unsafe extern "C" fn MPI_Start(request: *mut VirtRequest) -> c_int {
    // SAFETY: the program's argument.
    finish(Proc::MPI_Start, outcome!(start(unsafe { *request })), None)
}

/// `MPI_Startall`
pub unsafe extern "C" fn MPI_Startall(count: c_int, array_of_requests: *mut VirtRequest) -> c_int {
    for index in 0..count.max(0) as usize {
        // SAFETY: the program's array of `count` requests.
        let rc = outcome!(start(unsafe { *array_of_requests.add(index) }));
        if rc != SUCCESS {
            return finish(Proc::MPI_Startall, rc, None);
        }
    }
    SUCCESS
}

/// `MPI_Request_free`
pub unsafe extern "C" fn MPI_Request_free(request: *mut VirtRequest) -> c_int {
    // SAFETY: the program's argument.
    let handle = unsafe { &mut *request };
    if requests::index(*handle).is_none() {
        return finish(Proc::MPI_Request_free, ERR_REQUEST, None);
    }
    requests::free(handle);
    outcome!(requests::reap_orphans());
    SUCCESS
}
