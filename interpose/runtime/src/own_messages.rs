//! Messages of the runtime's own: started in memory of the runtime, and tested.
//!
//! After a failure they are forgotten. Their memory is kept until nobody can write there any more ([`keep`]).
#![allow(unsafe_code)]

mod heard;
mod lent;
mod swap;
mod told;

pub use heard::next;
pub use lent::{Lent, all_is_back, keep};
use std::ffi::{c_int, c_void};
pub use swap::swap;
pub use told::Told;
use understudy_mpi::bytes::Bytes;
use understudy_mpi::real_types::{RealComm, RealRequest};
use understudy_mpi::{self as mpi, check, real};
use understudy_numbers::Worker;

const NULL: RealRequest = RealRequest(std::ptr::null_mut());

/// Tags of the messages on [`crate::world::private`].
pub mod tag {
    use std::ffi::c_int;

    /// The begin of a copy: see [`crate::copies::Transfer`].
    pub const HEAD: c_int = 1;
    /// The description of its pages.
    pub const HEADER: c_int = 2;
    /// The rest of the state.
    pub const STATE: c_int = 3;
    /// Pages.
    pub const PAGES: c_int = 4;
    pub const SUMS: c_int = 5;
    /// Whether a cut is due.
    pub const VOTE: c_int = 6;
    /// A worker has what it needs to commit.
    pub const COMMIT: c_int = 7;
    /// What a holder needs for a rehearsal.
    pub const SCRIPT: c_int = 8;
    /// What a rehearsal has proved.
    pub const PROOF: c_int = 10;
    /// How static data can be rebuilt, for the holder of a copy.
    pub const STATIC: c_int = 11;
    /// The same for the process that gets a copy.
    pub const OFFER: c_int = 12;
    /// Which pages of a copy its holder has itself.
    pub const ANSWER: c_int = 9;
    /// All look for a cut wherever they are.
    pub const GATHER: c_int = 13;
    pub const STAND: c_int = 14;
    /// Nobody is to stand still.
    pub const OFF: c_int = 15;
    /// Processes come to the entry of a constructor.
    pub const ASSEMBLE: c_int = 16;
    /// The program has received a message that a cut had taken.
    pub const TAKEN: c_int = 17;
    /// Which messages a cut has taken.
    pub const SETTLE: c_int = 18;
    /// All still stand still.
    pub const CONFIRM: c_int = 19;
}

/// The other end of a message.
#[derive(Clone, Copy)]
pub struct Peer {
    pub comm: RealComm,
    /// Rank in it, which has all workers.
    pub rank: Worker,
    pub tag: c_int,
}

/// Starts to send bytes, and adds the request to the list.
///
/// # Safety
/// The bytes must stay in place, unchanged, until the request has ended.
pub unsafe fn send(
    data: *const c_void,
    length: usize,
    to: Peer,
    requests: &mut Vec<RealRequest>,
) -> mpi::Result<()> {
    let mut request = NULL;
    let (bytes, rank) = (Bytes::new(length)?, to.rank.0 as c_int);
    let (count, datatype) = (bytes.count(), bytes.datatype());
    // SAFETY: handed on to the caller.
    check(unsafe { real::PMPI_Isend(data, count, datatype, rank, to.tag, to.comm, &mut request) })?;
    requests.push(request);
    Ok(())
}

/// Posts a receive of at most so many bytes, and adds the request to the list.
///
/// # Safety
/// Nobody may use the memory until the request has ended.
pub unsafe fn receive(
    data: *mut c_void,
    length: usize,
    from: Peer,
    requests: &mut Vec<RealRequest>,
) -> mpi::Result<()> {
    let mut request = NULL;
    let (bytes, rank) = (Bytes::new(length)?, from.rank.0 as c_int);
    let (count, datatype) = (bytes.count(), bytes.datatype());
    // SAFETY: handed on to the caller.
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

/// Cancels receives that have not ended.
pub fn cancel(requests: &mut [RealRequest]) {
    for request in requests.iter_mut().filter(|request| **request != NULL) {
        // SAFETY: a receive of our own; it ends whether it can be cancelled or not.
        unsafe {
            real::PMPI_Cancel(request);
            real::PMPI_Request_free(request);
        }
    }
}

/// Whether all have ended; an error if one has failed.
pub fn test(requests: &mut [RealRequest]) -> mpi::Result<bool> {
    let (count, mut flag): (_, c_int) = (requests.len() as c_int, 0);
    // SAFETY: requests of our own; statuses are ignored.
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
