//! Messages among processes that have no list of their senders.

use super::next;
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::in_flight::{InFlightSet, Peer};
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Messages, each with its receiver or its sender.
type AddressedBytes = Vec<(Worker, Vec<u8>)>;

/// Sends `letters`, and returns the letters for this process; collective over `comm`.
///
/// A process enters a barrier once its letters have been received. When the barrier is over, the
/// letters of all processes have been received. The cost depends on the number of letters, and on
/// the number of processes only through the barrier (NBX: Hoefler, Siebert, Lumsdaine 2010).
///
/// Another collective operation must separate two exchanges with one tag. Otherwise a process could
/// receive a letter of the later exchange in the earlier one.
///
/// # Errors
/// Fails if a procedure of the MPI library fails.
pub fn sparse_exchange(
    comm: RealComm,
    tag: c_int,
    letters: AddressedBytes,
) -> mpi::Result<AddressedBytes> {
    let mut messages = InFlightSet::default();
    for (rank, bytes) in letters {
        messages.send_synchronous(Peer { comm, rank, tag }, bytes)?;
    }
    let (mut received, mut barrier) = (Vec::new(), None);
    loop {
        while let Some(letter) = next(comm, tag)? {
            received.push(letter);
        }
        match &mut barrier {
            None => {
                if messages.poll()?.is_some() {
                    barrier = Some(comm.start_barrier()?);
                }
            }
            Some(barrier) => {
                if barrier.poll()?.is_some() {
                    return Ok(received);
                }
            }
        }
    }
}
