//! Messages among processes that do not know from whom they receive.

use super::next;
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::in_flight::{InFlightSet, Peer};
use understudy_mpi::real_types::RealComm;
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
