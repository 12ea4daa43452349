//! Messages for which no receive has been posted.
#![allow(unsafe_code)]

use crate::generated::real;
use std::ffi::c_int;
use understudy_mpi::comm::byte;
use understudy_mpi::real_types::{ANY_SOURCE, RealComm, Status};
use understudy_mpi::{self as mpi, check};
use understudy_numbers::Worker;

/// Returns the next message with a tag that has arrived, and its sender.
///
/// `comm` must be a communicator of all workers.
///
/// # Errors
/// The error of a real procedure.
pub fn next(comm: RealComm, tag: c_int) -> mpi::Result<Option<(Worker, Vec<u8>)>> {
    let (mut flag, mut length, mut status): (c_int, c_int, _) = (0, 0, Status::default());
    // SAFETY: variables of this function.
    unsafe {
        check(real::PMPI_Iprobe(
            ANY_SOURCE,
            tag,
            comm,
            &mut flag,
            &mut status,
        ))?;
        if flag == 0 {
            return Ok(None);
        }
        check(real::PMPI_Get_count(&status, byte(), &mut length))?;
    }
    let mut bytes = vec![0u8; length as usize];
    let (place, from) = (bytes.as_mut_ptr().cast(), status.source);
    // SAFETY: a message that has arrived, received into a buffer of its size.
    check(unsafe { real::PMPI_Recv(place, length, byte(), from, tag, comm, &mut status) })?;
    Ok(Some((Worker(from as u32), bytes)))
}
