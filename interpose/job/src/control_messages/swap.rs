//! Messages of known lengths among processes that have lists of their senders.

use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::in_flight::{InFlightSet, Peer};
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Messages, each with its receiver or its sender.
type AddressedBytes = Vec<(Worker, Vec<u8>)>;

/// Sends `letters`, and waits for the expected messages, which are returned.
///
/// `expected` contains the senders and the lengths of their messages, in the order of the result.
///
/// # Errors
/// Fails if a procedure of the MPI library fails.
pub fn swap(
    comm: RealComm,
    tag: c_int,
    letters: AddressedBytes,
    expected: &[(Worker, usize)],
) -> mpi::Result<AddressedBytes> {
    let mut messages = InFlightSet::default();
    for &(rank, length) in expected {
        messages.receive(Peer { comm, rank, tag }, vec![0; length])?;
    }
    for (rank, bytes) in letters {
        messages.send([Peer { comm, rank, tag }], bytes)?;
    }
    loop {
        if let Some(buffers) = messages.poll()? {
            // The buffers of received messages precede those of sent messages.
            let senders = expected.iter().map(|&(from, _)| from);
            return Ok(senders.zip(buffers).collect());
        }
    }
}
