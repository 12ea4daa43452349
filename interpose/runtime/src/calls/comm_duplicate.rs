//! Duplicates of communicators (MPI 4.1, 7.4.2).
#![allow(unsafe_code, non_snake_case, clippy::missing_safety_doc)]

use super::comm::{construct_by_all, may_construct};
use super::runtime;
use crate::Runtime;
use crate::error_handling::handle_error;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtInfo, VirtRequest, real_comm, real_info};
use crate::objects::attribute;
use crate::objects::comm::create::PendingDuplicate;
use crate::objects::comm::{self, freed};
use crate::{attempt, drained, errors, requests};
use std::ffi::c_int;
use understudy_mpi::bytes::byte;
use understudy_mpi::real_types::{RealComm, RealRequest};

/// Completes a duplicate: runs the copy functions of attributes (7.7.2).
///
/// Frees the duplicate if a copy function fails.
unsafe fn duplicated(
    rt: &Runtime,
    procedure: Proc,
    rc: c_int,
    old: VirtComm,
    newcomm: *mut VirtComm,
) -> c_int {
    if rc != errors::SUCCESS {
        return rc;
    }
    // SAFETY: the constructor has just written to this address.
    let new = unsafe { *newcomm };
    let rc = attribute::copy_comm(rt, old, new);
    if rc != errors::SUCCESS {
        if let Some(index) = comm::index(rt, new) {
            freed::free(rt, index, false);
        }
        // SAFETY: the constructor has just written to this address.
        unsafe { *newcomm = comm::null_handle(rt) };
        return handle_error(rt, procedure, rc, Some(old));
    }
    rc
}

pub unsafe extern "C" fn MPI_Comm_dup(comm: VirtComm, newcomm: *mut VirtComm) -> c_int {
    let rt = runtime();
    // SAFETY: a communicator, and an address for the new handle.
    let rc = construct_by_all!(rt, Proc::MPI_Comm_dup, comm, newcomm, |new| unsafe {
        real::PMPI_Comm_dup(real_comm(rt, comm), new)
    });
    // SAFETY: the constructor has succeeded, or `rc` is an error.
    unsafe { duplicated(rt, Proc::MPI_Comm_dup, rc, comm, newcomm) }
}

pub unsafe extern "C" fn MPI_Comm_dup_with_info(
    comm: VirtComm,
    info: VirtInfo,
    newcomm: *mut VirtComm,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_dup_with_info;
    // SAFETY: a communicator; the real library checks the info object.
    let rc = construct_by_all!(rt, procedure, comm, newcomm, |new| unsafe {
        real::PMPI_Comm_dup_with_info(real_comm(rt, comm), real_info(rt, info), new)
    });
    // SAFETY: the constructor has succeeded, or `rc` is an error.
    unsafe { duplicated(rt, procedure, rc, comm, newcomm) }
}

/// Begins a duplicate (7.4.2) without waiting for other processes.
///
/// All members must have one `uid` for the new communicator. A non-blocking broadcast from the
/// first member, the companion of the request, sends the `uid` at the same time. The members of an
/// intercommunicator derive the `uid` instead; if they cannot derive one
/// ([`PendingDuplicate::new`]), `at_once` creates the duplicate within this call. The attributes'
/// copy functions run first (7.7.2): if one fails, no operation has been started.
///
/// # Safety
/// `newcomm` and `request` are the program's addresses for the handles.
unsafe fn begin_duplicate(
    rt: &Runtime,
    procedure: Proc,
    comm: VirtComm,
    newcomm: *mut VirtComm,
    request: *mut VirtRequest,
    start: impl FnOnce(&mut RealComm, &mut RealRequest) -> c_int,
    at_once: impl FnOnce(&mut RealComm) -> c_int,
) -> c_int {
    if let Err(rc) = may_construct(rt, comm, newcomm) {
        return handle_error(rt, procedure, rc, Some(comm));
    }
    let Some(mut pending) = PendingDuplicate::new(rt, comm) else {
        // SAFETY: MPI requires the program's addresses for the handles to be valid.
        return unsafe { duplicate_at_once(rt, procedure, comm, newcomm, request, at_once) };
    };
    let new = comm::handle(rt, pending.index);
    drained::drop_on(rt, new);
    let rc = attribute::copy_comm(rt, comm, new);
    if rc != errors::SUCCESS {
        freed::remove(rt, &[pending.index]);
        return handle_error(rt, procedure, rc, Some(comm));
    }
    let mut made = RealRequest(std::ptr::null_mut());
    let rc = attempt!(rt, start(&mut pending.real, &mut made));
    if rc != errors::SUCCESS {
        freed::remove(rt, &[pending.index]);
        return handle_error(rt, procedure, rc, Some(comm));
    }
    let mut companion = None;
    if comm::remote_members(rt, comm).is_none() && !comm::has_spawned(rt, comm) {
        let number = (&raw mut pending.uid).cast();
        let request = companion.insert(RealRequest(std::ptr::null_mut()));
        // SAFETY: eight bytes that do not move until the request has completed.
        let rc = attempt!(rt, unsafe {
            real::PMPI_Ibcast(number, 8, byte(), 0, real_comm(rt, comm), request)
        });
        if rc != errors::SUCCESS {
            freed::remove(rt, &[pending.index]);
            // The library writes to this memory when the duplicate is complete.
            Box::leak(pending);
            return handle_error(rt, procedure, rc, Some(comm));
        }
    }
    // SAFETY: MPI requires the program's addresses for the handles to be valid.
    unsafe {
        newcomm.write(new);
        request.write(requests::add_duplicate(rt, comm, pending, made, companion));
    }
    errors::SUCCESS
}

/// Creates a duplicate within this call, for members that cannot derive its `uid`.
///
/// The call waits for the other members, which a non-blocking call need not do.
///
/// # Safety
/// `newcomm` and `request` are the program's addresses for the handles.
unsafe fn duplicate_at_once(
    rt: &Runtime,
    procedure: Proc,
    comm: VirtComm,
    newcomm: *mut VirtComm,
    request: *mut VirtRequest,
    constructor: impl FnOnce(&mut RealComm) -> c_int,
) -> c_int {
    let rc = construct_by_all!(rt, procedure, comm, newcomm, constructor);
    // SAFETY: the constructor has written the handle, or `rc` is an error; MPI requires the
    // program's addresses to be valid.
    unsafe {
        let rc = duplicated(rt, procedure, rc, comm, newcomm);
        if rc == errors::SUCCESS {
            let kind = requests::RequestKind::Collective(None);
            request.write(requests::add_done(
                rt,
                comm,
                kind,
                requests::EMPTY_STATUS,
                rc,
            ));
        }
        rc
    }
}

pub unsafe extern "C" fn MPI_Comm_idup(
    comm: VirtComm,
    newcomm: *mut VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_idup;
    // SAFETY: a communicator; MPI requires the program's arguments to be valid.
    unsafe {
        let start = |new: &mut RealComm, made: &mut RealRequest| {
            real::PMPI_Comm_idup(real_comm(rt, comm), new, made)
        };
        let at_once = |new: &mut RealComm| real::PMPI_Comm_dup(real_comm(rt, comm), new);
        begin_duplicate(rt, procedure, comm, newcomm, request, start, at_once)
    }
}

pub unsafe extern "C" fn MPI_Comm_idup_with_info(
    comm: VirtComm,
    info: VirtInfo,
    newcomm: *mut VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let procedure = Proc::MPI_Comm_idup_with_info;
    // SAFETY: a communicator; the real library checks the info object.
    unsafe {
        let start = |new: &mut RealComm, made: &mut RealRequest| {
            real::PMPI_Comm_idup_with_info(real_comm(rt, comm), real_info(rt, info), new, made)
        };
        let at_once = |new: &mut RealComm| {
            real::PMPI_Comm_dup_with_info(real_comm(rt, comm), real_info(rt, info), new)
        };
        begin_duplicate(rt, procedure, comm, newcomm, request, start, at_once)
    }
}
