//! Collectives with arrays of datatypes (MPI 4.1, chapter 6).
//!
//! Handwritten, since the template of the call table cannot translate such arrays.
#![allow(
    unsafe_code,
    non_snake_case,
    clippy::too_many_arguments,
    clippy::missing_safety_doc
)]

use crate::Runtime;
use crate::attempt;
use crate::calls::runtime;
use crate::error_handling::finish;
use crate::errors::SUCCESS;
use crate::generated::{Proc, real};
use crate::handles::{VirtComm, VirtDatatype, VirtRequest, real_comm, real_datatype};
use crate::objects::comm::degrees;
use crate::{cut, requests};
use std::ffi::{c_int, c_void};
use understudy_mpi::real_types::{IN_PLACE, RealDatatype, RealRequest};

/// Returns the real datatypes of an array; empty for a null pointer.
unsafe fn real_types(rt: &Runtime, types: *const VirtDatatype, count: c_int) -> Vec<RealDatatype> {
    if types.is_null() {
        return Vec::new();
    }
    // SAFETY: MPI requires the program's array to have this length.
    unsafe { std::slice::from_raw_parts(types, count.max(0) as usize) }
        .iter()
        .map(|&kind| real_datatype(rt, kind))
        .collect()
}

/// Returns a pointer to the first datatype; null if the list is empty.
fn first(types: &[RealDatatype]) -> *const RealDatatype {
    types.first().map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Returns the numbers of processes that send to this one, and that receive from it.
///
/// Both numbers are the size of the communicator, or of the remote group of an intercommunicator.
fn peers(rt: &Runtime, comm: VirtComm) -> (c_int, c_int) {
    let (mut inter, mut size) = (0, 0);
    // SAFETY: queries that write only to variables of this frame.
    unsafe {
        real::PMPI_Comm_test_inter(real_comm(rt, comm), &mut inter);
        if inter != 0 {
            real::PMPI_Comm_remote_size(real_comm(rt, comm), &mut size);
        } else {
            real::PMPI_Comm_size(real_comm(rt, comm), &mut size);
        }
    }
    (size, size)
}

/// Returns the real datatypes of sent and received blocks.
///
/// With MPI_IN_PLACE the send array is not read.
///
/// # Safety
/// The arrays have as many elements as blocks are received and sent.
unsafe fn both_types(
    rt: &Runtime,
    (receives, sends): (c_int, c_int),
    send: Option<*const VirtDatatype>,
    receive: *const VirtDatatype,
) -> [Vec<RealDatatype>; 2] {
    // SAFETY: the caller passes arrays of `sends` and of `receives` datatypes.
    unsafe {
        let sent = send.map_or(Vec::new(), |types| real_types(rt, types, sends));
        [sent, real_types(rt, receive, receives)]
    }
}

/// Defines handlers of blocking collectives.
///
/// Arguments: the procedure, the real one, its types of counts and displacements, and the function
/// that returns the numbers of blocks.
macro_rules! blocking {
    ($($name:ident, $real:ident, $count:ty, $displacement:ty, $blocks:ident;)*) => { $(
        pub unsafe extern "C" fn $name(
            sendbuf: *const c_void,
            sendcounts: *const $count,
            sdispls: *const $displacement,
            sendtypes: *const VirtDatatype,
            recvbuf: *mut c_void,
            recvcounts: *const $count,
            rdispls: *const $displacement,
            recvtypes: *const VirtDatatype,
            comm: VirtComm,
        ) -> c_int {
            let rt = runtime();
            if cut::collective(rt, comm).is_err() {
                return 0;
            }
            let given = (sendbuf != IN_PLACE).then_some(sendtypes);
            // SAFETY: MPI requires the program's arguments to be valid.
            unsafe {
                let types = both_types(rt, $blocks(rt, comm), given, recvtypes);
                let [send, receive] = types.each_ref().map(|types| first(types));
                let real_comm = real_comm(rt, comm);
                let rc = attempt!(
                    rt,
                    real::$real(
                        sendbuf, sendcounts, sdispls, send, recvbuf, recvcounts, rdispls, receive,
                        real_comm
                    )
                );
                if rc != SUCCESS {
                    cut::withdraw(rt, comm, rc);
                }
                finish(rt, Proc::$name, rc, Some(comm))
            }
        }
    )* };
}

blocking! {
    MPI_Alltoallw, PMPI_Alltoallw, c_int, c_int, peers;
    MPI_Alltoallw_c, PMPI_Alltoallw_c, i64, isize, peers;
    MPI_Neighbor_alltoallw, PMPI_Neighbor_alltoallw, c_int, isize, degrees;
    MPI_Neighbor_alltoallw_c, PMPI_Neighbor_alltoallw_c, i64, isize, degrees;
}

/// Defines handlers of non-blocking collectives.
///
/// The real library uses the arrays of datatypes until the request completes.
macro_rules! nonblocking {
    ($($name:ident, $real:ident, $count:ty, $displacement:ty, $blocks:ident;)*) => { $(
        pub unsafe extern "C" fn $name(
            sendbuf: *const c_void,
            sendcounts: *const $count,
            sdispls: *const $displacement,
            sendtypes: *const VirtDatatype,
            recvbuf: *mut c_void,
            recvcounts: *const $count,
            rdispls: *const $displacement,
            recvtypes: *const VirtDatatype,
            comm: VirtComm,
            request: *mut VirtRequest,
        ) -> c_int {
            let rt = runtime();
            let given = (sendbuf != IN_PLACE).then_some(sendtypes);
            // SAFETY: MPI requires the program's arguments to be valid.
            unsafe {
                let types = both_types(rt, $blocks(rt, comm), given, recvtypes);
                let real_comm = real_comm(rt, comm);
                begin(rt, Proc::$name, types, comm, request, |[send, receive], new| {
                    real::$real(
                        sendbuf, sendcounts, sdispls, send, recvbuf, recvcounts, rdispls, receive,
                        real_comm, new,
                    )
                })
            }
        }
    )* };
}

nonblocking! {
    MPI_Ialltoallw, PMPI_Ialltoallw, c_int, c_int, peers;
    MPI_Ialltoallw_c, PMPI_Ialltoallw_c, i64, isize, peers;
    MPI_Ineighbor_alltoallw, PMPI_Ineighbor_alltoallw, c_int, isize, degrees;
    MPI_Ineighbor_alltoallw_c, PMPI_Ineighbor_alltoallw_c, i64, isize, degrees;
}

/// Starts a non-blocking collective, and keeps its datatypes until the request completes.
///
/// # Safety
/// `request` is the program's address for the handle.
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
        // SAFETY: MPI requires the program's address for the handle to be valid.
        unsafe { request.write(handle) };
    }
    finish(rt, procedure, rc, Some(comm))
}
