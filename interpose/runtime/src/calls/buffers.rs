//! Buffers for buffered sends (MPI 4.1, 3.6): of the process, of communicators and of sessions.
//!
//! The runtime checks only that the buffers have enough room; no data are copied into them.
#![allow(unsafe_code)]

use super::arguments::outcome;
use crate::Runtime;
use crate::abi::is_foreign_abi as is_mpich;
use crate::arch::Rewound;
use crate::error_handling::{finish, handle_error_on};
use crate::errors::{ERR_ARG, ERR_BUFFER, ERR_COMM, ERR_OTHER, SUCCESS};
use crate::generated::Proc;
use crate::handles::{VirtComm, VirtRequest, VirtSession};
use crate::objects::comm;
use crate::objects::errhandler::ErrorObject;
use crate::objects::session::{self, ERR_SESSION};
use crate::requests::{AttachedBuffer, BufferOwner, RequestKind, RequestState};
use crate::{checkpoint, completion, cut, requests};
use std::ffi::{c_int, c_void};
use understudy_mpi::abi::{foreign_abi, limit};
use understudy_mpi::library;
use understudy_mpi::real_types::RealRequest;

/// `MPI_BUFFER_AUTOMATIC` of MPICH and of the standard ABI, at addresses that no buffer has.
///
/// MPI provides a buffer of any size then.
const AUTOMATIC_BUFFERS: [u64; 2] = [-2i64 as u64, 2];

/// Returns the owner as a handle of the program.
fn handles(owner: BufferOwner) -> (Option<VirtComm>, Option<VirtSession>) {
    match owner {
        BufferOwner::Process => (None, None),
        BufferOwner::Comm(comm) => (Some(VirtComm(comm as *mut c_void)), None),
        BufferOwner::Session(session) => (None, Some(VirtSession(session as *mut c_void))),
    }
}

/// Returns the buffer attached to this owner; an error if the owner is invalid.
fn attached(rt: &Runtime, owner: BufferOwner) -> Result<Option<AttachedBuffer>, c_int> {
    match handles(owner) {
        (Some(comm), _) if comm::index(rt, comm).is_none() => Err(ERR_COMM),
        (_, Some(session)) if session::index(rt, session).is_none() => Err(ERR_SESSION),
        _ => Ok(requests::attached(rt, owner)),
    }
}

/// Passes an error to the error handler of the buffer's owner.
///
/// The process has no error handler: its errors are handled as errors without an object.
fn finish_on_owner(
    rt: &Runtime,
    procedure: Proc,
    owner: BufferOwner,
    outcome: Result<(), c_int>,
) -> c_int {
    match (outcome, handles(owner)) {
        (Ok(()), _) => SUCCESS,
        (Err(rc), (_, Some(session))) if rc != ERR_SESSION => {
            handle_error_on(rt, procedure, rc, ErrorObject::Session(session))
        }
        (Err(rc), (comm, _)) => finish(rt, procedure, rc, comm),
    }
}

/// Implements `MPI_Buffer_attach` and its variants.
pub(super) fn attach(
    rt: &Runtime,
    procedure: Proc,
    owner: impl Into<BufferOwner>,
    buffer: *mut c_void,
    size: impl Into<i64>,
) -> c_int {
    let (owner, size) = (owner.into(), size.into());
    let address = buffer as u64;
    let outcome = attached(rt, owner).and_then(|before| {
        let is_automatic = AUTOMATIC_BUFFERS.contains(&address);
        // MPICH requires room for the overhead of each message.
        let min_size = foreign_abi().map_or(0, |_| limit("MPI_BSEND_OVERHEAD") as i64);
        match before {
            _ if address == 0 || (size < 0 && !is_automatic) => return Err(ERR_ARG),
            Some(_) if library::mpich_version() >= (4, 2) => return Err(ERR_OTHER),
            Some(_) => return Err(ERR_BUFFER),
            None if size < min_size && !is_automatic => return Err(ERR_BUFFER),
            None => {}
        }
        let size = if is_automatic { i64::MAX } else { size };
        requests::buffers_mut(rt).push(AttachedBuffer {
            owner,
            address,
            size,
        });
        Ok(())
    });
    finish_on_owner(rt, procedure, owner, outcome)
}

/// Waits until no part of a buffer is in use.
fn wait_until_unused(rt: &Runtime, owner: BufferOwner) -> Result<(), Rewound> {
    cut::here(rt)?;
    while requests::used_bytes(rt, owner) > 0 {
        completion::reap_orphans(rt)?;
        cut::meanwhile(rt)?;
        checkpoint::poll(rt)?;
    }
    Ok(())
}

/// Implements `MPI_Buffer_detach` and its variants.
///
/// # Safety
/// `buffer` and `size` are the program's addresses for the address and the size.
pub(super) unsafe fn detach<Size: TryFrom<i64>>(
    rt: &Runtime,
    procedure: Proc,
    owner: impl Into<BufferOwner>,
    buffer: *mut c_void,
    size: *mut Size,
) -> c_int {
    let owner = owner.into();
    outcome!(wait_until_unused(rt, owner));
    let nothing = AttachedBuffer {
        owner,
        address: 0,
        size: 0,
    };
    let found = attached(rt, owner).and_then(|buffer| match buffer {
        None if is_mpich() => Ok(nothing),
        buffer => buffer.ok_or(ERR_BUFFER),
    });
    let outcome = found.and_then(|attached| {
        let is_automatic = AUTOMATIC_BUFFERS.contains(&attached.address);
        let bytes = Size::try_from(if is_automatic { 0 } else { attached.size });
        let bytes = bytes.map_err(|_| ERR_BUFFER)?;
        requests::detach(rt, owner);
        // SAFETY: MPI requires the program's addresses for address and size to be valid.
        unsafe {
            buffer.cast::<u64>().write(attached.address);
            size.write(bytes);
        }
        Ok(())
    });
    finish_on_owner(rt, procedure, owner, outcome)
}

/// Implements `MPI_Buffer_flush` and its variants; returns at once without a buffer.
pub(super) fn flush(rt: &Runtime, procedure: Proc, owner: impl Into<BufferOwner>) -> c_int {
    let owner = owner.into();
    outcome!(wait_until_unused(rt, owner));
    finish_on_owner(rt, procedure, owner, attached(rt, owner).map(drop))
}

/// Implements `MPI_Buffer_iflush` and its variants.
///
/// The request completes when all messages in the buffer have been sent.
///
/// # Safety
/// `request` is the program's address for the request.
pub(super) unsafe fn begin_flush(
    rt: &Runtime,
    procedure: Proc,
    owner: impl Into<BufferOwner>,
    request: *mut VirtRequest,
) -> c_int {
    let owner = owner.into();
    let outcome = attached(rt, owner).map(|_| {
        let none = RealRequest(std::ptr::null_mut());
        let flush = requests::add(
            rt,
            comm::self_handle(rt),
            RequestKind::Flush(owner),
            RequestState::Open,
            none,
        );
        // SAFETY: MPI requires the program's address for the request to be valid.
        unsafe { request.write(flush) };
    });
    finish_on_owner(rt, procedure, owner, outcome)
}
