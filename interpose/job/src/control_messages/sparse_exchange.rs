//! Messages among processes that do not know from whom they receive.
#![allow(unsafe_code)]

use super::in_flight_buffer::InFlightBuffer;
use super::peer::{Peer, send_synchronous, test};
use super::unposted::next;
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::{RealComm, RealRequest};
use understudy_numbers::Worker;

/// Bytes for, or from, each process.
type AddressedBytes = Vec<(Worker, Vec<u8>)>;

/// Sends `letters` and returns those for this process; collective over `comm`.
///
/// A process enters a barrier once its letters have been received. When the barrier is over, all
/// letters have been. The cost depends on the number of letters, and on the number of processes
/// only through the barrier (NBX: Hoefler, Siebert, Lumsdaine 2010). Between two exchanges with one
/// tag there must be another collective operation, so that no process receives a letter of the
/// later exchange in the earlier one.
///
/// # Errors
/// The error of a real procedure.
pub fn sparse_exchange(
    comm: RealComm,
    tag: c_int,
    letters: AddressedBytes,
) -> mpi::Result<AddressedBytes> {
    let mut letters = InFlightBuffer::new(letters);
    let mut requests = Vec::new();
    for (rank, bytes) in letters.iter() {
        let to = Peer {
            comm,
            rank: *rank,
            tag,
        };
        // SAFETY: the bytes stay in place until the requests are complete, and are kept after an
        // error.
        unsafe { send_synchronous(bytes.as_ptr().cast(), bytes.len(), to, &mut requests)? };
    }
    let mut received = Vec::new();
    let mut barrier: Option<[RealRequest; 1]> = None;
    loop {
        while let Some(letter) = next(comm, tag)? {
            received.push(letter);
        }
        if let Some(request) = &mut barrier {
            if test(request)? {
                return Ok(received);
            }
        } else if test(&mut requests)? {
            letters.complete();
            barrier = Some([comm.start_barrier()?]);
        }
    }
}
