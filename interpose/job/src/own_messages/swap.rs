//! Messages of known lengths among some processes, all of which wait for theirs.
#![allow(unsafe_code)]

use super::lent::Lent;
use super::peer::{Peer, receive, send, test};
use std::ffi::c_int;
use understudy_mpi as mpi;
use understudy_mpi::real_types::RealComm;
use understudy_numbers::Worker;

/// Bytes for, or from, each process.
type Letters = Vec<(Worker, Vec<u8>)>;

/// Sends `letters`, and returns the received messages.
///
/// `expected` contains the senders, and the lengths of their messages.
///
/// # Errors
/// The error of a real procedure.
pub fn swap(
    comm: RealComm,
    tag: c_int,
    letters: Letters,
    expected: &[(Worker, usize)],
) -> mpi::Result<Letters> {
    let room = |&(from, length): &(Worker, usize)| (from, vec![0; length]);
    let out = Lent::new(letters);
    let mut came: Lent<Letters> = Lent::new(expected.iter().map(room).collect());
    let mut requests = Vec::new();
    // SAFETY: the bytes stay in place until the requests are complete, and are kept after an error.
    unsafe {
        for (rank, bytes) in came.iter_mut() {
            let from = Peer {
                comm,
                rank: *rank,
                tag,
            };
            receive(bytes.as_mut_ptr().cast(), bytes.len(), from, &mut requests)?;
        }
        for (rank, bytes) in out.iter() {
            let to = Peer {
                comm,
                rank: *rank,
                tag,
            };
            send(bytes.as_ptr().cast(), bytes.len(), to, &mut requests)?;
        }
    }
    while !test(&mut requests)? {}
    let mut out = out;
    out.give_back();
    came.give_back();
    Ok(std::mem::take(&mut *came))
}
