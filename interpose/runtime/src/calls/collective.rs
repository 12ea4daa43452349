//! The collectives that need more than the call table's template: those with arrays of datatypes (MPI 4.1, chapter 6).
#![allow(unsafe_code, non_snake_case, clippy::too_many_arguments, clippy::missing_safety_doc)]

use crate::attempt;
use crate::calls::runtime;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{IN_PLACE, VirtComm, VirtDatatype, VirtRequest, real_comm, real_datatype};
use crate::objects::comm::degrees;
use crate::raise::finish;
use crate::recovery::Runtime;
use crate::{cut, requests, traffic};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{RealDatatype, RealRequest};

/// Real datatypes of an array of `count`; empty for a null pointer (MPI_IN_PLACE ignores the array).
unsafe fn real_types(rt: &Runtime, types: *const VirtDatatype, count: c_int) -> Vec<RealDatatype> {
    if types.is_null() {
        return Vec::new();
    }
    // SAFETY: the program's array of that length.
    unsafe { std::slice::from_raw_parts(types, count.max(0) as usize) }
        .iter()
        .map(|&kind| real_datatype(rt, kind))
        .collect()
}

/// The first of them; null if there are none.
fn first(types: &[RealDatatype]) -> *const RealDatatype {
    types.first().map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Number of peers of a collective: the remote group's for an intercommunicator.
fn peers(rt: &Runtime, comm: VirtComm) -> c_int {
    let (mut inter, mut size) = (0, 0);
    // SAFETY: local queries.
    unsafe {
        real::PMPI_Comm_test_inter(real_comm(rt, comm), &mut inter);
        if inter != 0 {
            real::PMPI_Comm_remote_size(real_comm(rt, comm), &mut size);
        } else {
            real::PMPI_Comm_size(real_comm(rt, comm), &mut size);
        }
    }
    size
}

/// Counts the call, if anything is counted: so many blocks are sent.
///
/// # Safety
/// The program's arrays.
unsafe fn add_up(rt: &Runtime, comm: VirtComm, blocks: c_int, counts: *const c_int, types: *const VirtDatatype) {
    if traffic::is_on() {
        // SAFETY: handed on to the caller.
        let bytes = unsafe { traffic::typed_list(rt, blocks.max(0) as usize, counts, types) };
        traffic::collective(rt, comm, bytes);
    }
}

/// `MPI_Alltoallw`
pub unsafe extern "C" fn MPI_Alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const VirtDatatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const VirtDatatype,
    comm: VirtComm,
) -> c_int {
    let rt = runtime();
    if cut::collective(rt, comm).is_err() {
        return 0;
    }
    let count = peers(rt, comm);
    // SAFETY: the program's arguments are handed on; with MPI_IN_PLACE the send arrays are not looked at.
    unsafe {
        if sendbuf == IN_PLACE {
            add_up(rt, comm, count, recvcounts, recvtypes);
        } else {
            add_up(rt, comm, count, sendcounts, sendtypes);
        }
        let send = if sendbuf == IN_PLACE {
            Vec::new()
        } else {
            real_types(rt, sendtypes, count)
        };
        let receive = real_types(rt, recvtypes, count);
        let (send, receive) = (first(&send), first(&receive));
        let real_comm = real_comm(rt, comm);
        let rc = attempt!(
            rt,
            real::PMPI_Alltoallw(
                sendbuf, sendcounts, sdispls, send, recvbuf, recvcounts, rdispls, receive, real_comm
            )
        );
        if rc != SUCCESS {
            cut::withdraw(rt, comm, rc);
        }
        finish(rt, Proc::MPI_Alltoallw, rc, Some(comm))
    }
}

/// `MPI_Neighbor_alltoallw`
pub unsafe extern "C" fn MPI_Neighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const isize,
    sendtypes: *const VirtDatatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const isize,
    recvtypes: *const VirtDatatype,
    comm: VirtComm,
) -> c_int {
    let rt = runtime();
    if cut::collective(rt, comm).is_err() {
        return 0;
    }
    let (indegree, outdegree) = degrees(rt, comm);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        add_up(rt, comm, outdegree, sendcounts, sendtypes);
        let (send, receive) = (
            real_types(rt, sendtypes, outdegree),
            real_types(rt, recvtypes, indegree),
        );
        let rc = attempt!(
            rt,
            real::PMPI_Neighbor_alltoallw(
                sendbuf,
                sendcounts,
                sdispls,
                first(&send),
                recvbuf,
                recvcounts,
                rdispls,
                first(&receive),
                real_comm(rt, comm),
            )
        );
        if rc != SUCCESS {
            cut::withdraw(rt, comm, rc);
        }
        finish(rt, Proc::MPI_Neighbor_alltoallw, rc, Some(comm))
    }
}

/// `MPI_Ialltoallw`: the real library keeps the addresses of the arrays of datatypes until the end.
pub unsafe extern "C" fn MPI_Ialltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const c_int,
    sendtypes: *const VirtDatatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const c_int,
    recvtypes: *const VirtDatatype,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let count = peers(rt, comm);
    // SAFETY: the program's arguments are handed on; with MPI_IN_PLACE the send arrays are not looked at.
    unsafe {
        if sendbuf == IN_PLACE {
            add_up(rt, comm, count, recvcounts, recvtypes);
        } else {
            add_up(rt, comm, count, sendcounts, sendtypes);
        }
        let send = if sendbuf == IN_PLACE {
            Vec::new()
        } else {
            real_types(rt, sendtypes, count)
        };
        begin(
            rt,
            Proc::MPI_Ialltoallw,
            [send, real_types(rt, recvtypes, count)],
            comm,
            request,
            |[send, receive], new| {
                real::PMPI_Ialltoallw(
                    sendbuf,
                    sendcounts,
                    sdispls,
                    send,
                    recvbuf,
                    recvcounts,
                    rdispls,
                    receive,
                    real_comm(rt, comm),
                    new,
                )
            },
        )
    }
}

/// `MPI_Ineighbor_alltoallw`
pub unsafe extern "C" fn MPI_Ineighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: *const c_int,
    sdispls: *const isize,
    sendtypes: *const VirtDatatype,
    recvbuf: *mut c_void,
    recvcounts: *const c_int,
    rdispls: *const isize,
    recvtypes: *const VirtDatatype,
    comm: VirtComm,
    request: *mut VirtRequest,
) -> c_int {
    let rt = runtime();
    let (indegree, outdegree) = degrees(rt, comm);
    // SAFETY: the program's arguments are handed on.
    unsafe {
        add_up(rt, comm, outdegree, sendcounts, sendtypes);
        let types = [
            real_types(rt, sendtypes, outdegree),
            real_types(rt, recvtypes, indegree),
        ];
        begin(
            rt,
            Proc::MPI_Ineighbor_alltoallw,
            types,
            comm,
            request,
            |[send, receive], new| {
                real::PMPI_Ineighbor_alltoallw(
                    sendbuf,
                    sendcounts,
                    sdispls,
                    send,
                    recvbuf,
                    recvcounts,
                    rdispls,
                    receive,
                    real_comm(rt, comm),
                    new,
                )
            },
        )
    }
}

/// Starts a non-blocking collective with these datatypes, which are kept until it has ended.
///
/// # Safety
/// The program's place for the handle.
unsafe fn begin(
    rt: &Runtime,
    procedure: Proc,
    types: [Vec<RealDatatype>; 2],
    comm: VirtComm,
    request: *mut VirtRequest,
    start: impl FnOnce([*const RealDatatype; 2], *mut RealRequest) -> c_int,
) -> c_int {
    let mut new = RealRequest(std::ptr::null_mut());
    let rc = attempt!(rt, start([first(&types[0]), first(&types[1])], &mut new));
    if rc == SUCCESS {
        let handle = requests::add_collective(rt, comm, None, new);
        requests::keep(rt, handle, Box::new(types));
        // SAFETY: the caller's promise.
        unsafe { request.write(handle) };
    }
    finish(rt, procedure, rc, Some(comm))
}
