//! Messages to and from one process.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use understudy_mpi::bytes::Bytes;
use understudy_mpi::real_types::{RealComm, RealDatatype, RealRequest};
use understudy_mpi::{self as mpi, check, real};
use understudy_numbers::Worker;

const NULL: RealRequest = RealRequest(std::ptr::null_mut());

/// Other end of a message.
#[derive(Clone, Copy)]
pub struct Peer {
    pub comm: RealComm,
    /// Rank in the communicator, which contains all workers.
    pub rank: Worker,
    pub tag: c_int,
}

/// Starts to send bytes, and adds the request to the list.
///
/// # Safety
/// The bytes must stay in place, unchanged, until the request is complete.
pub unsafe fn send(
    data: *const c_void,
    length: usize,
    to: Peer,
    requests: &mut Vec<RealRequest>,
) -> mpi::Result<()> {
    // SAFETY: by the caller's contract.
    unsafe { start_send(real::PMPI_Isend, data, length, to, requests) }
}

/// Implements [`send`] for a request that is complete only when the message is being received.
///
/// # Safety
/// As for [`send`].
pub unsafe fn send_synchronous(
    data: *const c_void,
    length: usize,
    to: Peer,
    requests: &mut Vec<RealRequest>,
) -> mpi::Result<()> {
    // SAFETY: by the caller's contract.
    unsafe { start_send(real::PMPI_Issend, data, length, to, requests) }
}

/// Procedure that starts to send a message.
type StartSend = unsafe extern "C" fn(
    *const c_void,
    c_int,
    RealDatatype,
    c_int,
    c_int,
    RealComm,
    *mut RealRequest,
) -> c_int;

/// # Safety
/// As for [`send`].
unsafe fn start_send(
    procedure: StartSend,
    data: *const c_void,
    length: usize,
    to: Peer,
    requests: &mut Vec<RealRequest>,
) -> mpi::Result<()> {
    let mut request = NULL;
    let (bytes, rank) = (Bytes::new(length)?, to.rank.0 as c_int);
    let (count, datatype) = (bytes.count(), bytes.datatype());
    // SAFETY: by the caller's contract.
    check(unsafe { procedure(data, count, datatype, rank, to.tag, to.comm, &mut request) })?;
    requests.push(request);
    Ok(())
}

/// Posts a receive of at most `length` bytes, and adds the request to the list.
///
/// # Safety
/// No other code may use the memory until the request is complete.
pub unsafe fn receive(
    data: *mut c_void,
    length: usize,
    from: Peer,
    requests: &mut Vec<RealRequest>,
) -> mpi::Result<()> {
    let mut request = NULL;
    let (bytes, rank) = (Bytes::new(length)?, from.rank.0 as c_int);
    let (count, datatype) = (bytes.count(), bytes.datatype());
    // SAFETY: by the caller's contract.
    check(unsafe {
        real::PMPI_Irecv(
            data,
            count,
            datatype,
            rank,
            from.tag,
            from.comm,
            &mut request,
        )
    })?;
    requests.push(request);
    Ok(())
}

/// Cancels receives that are not complete.
pub fn cancel(requests: &mut [RealRequest]) {
    for request in requests.iter_mut().filter(|request| **request != NULL) {
        // SAFETY: a receive of the runtime, which completes even if it cannot be cancelled.
        unsafe {
            real::PMPI_Cancel(request);
            real::PMPI_Request_free(request);
        }
    }
}

/// True if all requests are complete.
///
/// # Errors
/// A request has failed.
pub fn test(requests: &mut [RealRequest]) -> mpi::Result<bool> {
    let (count, mut flag): (_, c_int) = (requests.len() as c_int, 0);
    // SAFETY: requests of the runtime; statuses are ignored.
    check(unsafe {
        real::PMPI_Testall(
            count,
            requests.as_mut_ptr(),
            &mut flag,
            std::ptr::null_mut(),
        )
    })?;
    Ok(flag != 0)
}
