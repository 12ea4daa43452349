//! Persistent requests (MPI 4.1, section 3.9).
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use super::arguments::{message_arguments, outcome};
use super::mpi_memory::buffered_send;
use super::point_to_point::init_persistent;
use crate::Runtime;
use crate::arch::Rewound;
use crate::calls::runtime;
use crate::error_handling::finish;
use crate::errors::{ERR_REQUEST, SUCCESS};
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtRequest};
use crate::requests::{self, EMPTY_STATUS, RequestKind, SendMode};
use crate::{completion, drained, posting, recovery};
use std::ffi::{c_int, c_void};

macro_rules! persistent_sends {
    ($($name:ident, $mode:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        pub unsafe extern "C" fn $name(
            buf: *const c_void, count: c_int, datatype: VirtDatatype, dest: c_int, tag: c_int,
            comm: VirtComm, request: *mut VirtRequest,
        ) -> c_int {
            let rt = $crate::calls::runtime();
            let arguments = message_arguments(buf.cast_mut(), count, datatype, dest, tag, comm);
            init_persistent(
                rt, Proc::$name, RequestKind::PersistentSend(SendMode::$mode, arguments), comm,
                request
            )
        }
    )*};
}

persistent_sends! {
    MPI_Send_init, Standard;
    MPI_Bsend_init, Buffered;
    MPI_Ssend_init, Synchronous;
    MPI_Rsend_init, Ready;
}

#[inline]
fn start(rt: &Runtime, handle: VirtRequest) -> Result<c_int, Rewound> {
    if !drained::has_any()
        && let Some((index, before)) = requests::startable(rt, handle)
    {
        let mut request = before;
        // SAFETY: an inactive persistent request.
        let rc = unsafe { real::PMPI_Start(&mut request) };
        if request != before {
            requests::set_real(rt, index, request);
        }
        let rc = recovery::check(rt, rc)?;
        if rc == SUCCESS {
            requests::record_started(rt, index);
        }
        return Ok(rc);
    }
    start_with_record(rt, handle)
}

/// Starts a request that the fast path cannot start.
///
/// The message may have been drained. The request may be a collective, a partitioned message, or a
/// buffered send, which has no real request.
#[inline(never)]
fn start_with_record(rt: &Runtime, handle: VirtRequest) -> Result<c_int, Rewound> {
    let Some(index) = requests::index(rt, handle).filter(|&index| requests::is_inactive(rt, index))
    else {
        return Ok(ERR_REQUEST);
    };
    let kind = requests::get(rt, index).map(|request| request.kind);
    match kind {
        Some(RequestKind::PersistentSend(SendMode::Buffered, message_arguments)) => {
            let rc = buffered_send(rt, &message_arguments)?;
            if rc == SUCCESS {
                requests::set_state(rt, index, requests::done_state(EMPTY_STATUS, SUCCESS));
            }
            Ok(rc)
        }
        _ => recovery::check(rt, posting::start(rt, index)),
    }
}

pub unsafe extern "C" fn MPI_Start(request: *mut VirtRequest) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    finish(
        rt,
        Proc::MPI_Start,
        outcome!(start(rt, unsafe { *request })),
        None,
    )
}

pub unsafe extern "C" fn MPI_Startall(count: c_int, array_of_requests: *mut VirtRequest) -> c_int {
    let rt = runtime();
    for index in 0..count.max(0) as usize {
        // SAFETY: MPI requires the program's array to have `count` requests.
        let rc = outcome!(start(rt, unsafe { *array_of_requests.add(index) }));
        if rc != SUCCESS {
            return finish(rt, Proc::MPI_Startall, rc, None);
        }
    }
    SUCCESS
}

pub unsafe extern "C" fn MPI_Request_free(request: *mut VirtRequest) -> c_int {
    let rt = runtime();
    // SAFETY: MPI requires the program's argument to be valid.
    let handle = unsafe { &mut *request };
    let Some(index) = requests::index(rt, *handle) else {
        return finish(rt, Proc::MPI_Request_free, ERR_REQUEST, None);
    };
    requests::free(rt, handle);
    outcome!(completion::reap_orphan(rt, index));
    SUCCESS
}
