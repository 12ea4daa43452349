//! What every process has, at every process.
#![allow(unsafe_code)]

use crate::errors::{ERR_INTERN, succeeded};
use crate::generated::real;
use crate::handles::{self, VirtDatatype, VirtOp, predefined_handle, real_datatype, real_op};
use bincode::config::standard;
use std::ffi::c_int;
use understudy_mpi::real_types::RealComm;

/// The values of all processes of `comm`, in the order of their ranks. A collective, `MPI_Allgather` and `MPI_Allgatherv`
/// (MPI 4.1, chapter 6.7).
///
/// # Errors
/// The class of the error of a real procedure; `MPI_ERR_INTERN` if they do not fit into 2 GiB, or cannot be read.
pub fn everybodys<T>(comm: RealComm, own: &T) -> Result<Vec<T>, c_int>
where
    T: bincode::Encode + bincode::Decode<()>,
{
    let (byte, one) = (handles::byte_type(), size_of::<c_int>() as c_int);
    let from = bincode::encode_to_vec(own, standard()).map_err(|_| ERR_INTERN)?;
    let length = c_int::try_from(from.len()).map_err(|_| ERR_INTERN)?;
    let mut size = 0;
    // SAFETY: a valid communicator; room for one number of each process.
    let lengths = unsafe {
        succeeded(real::PMPI_Comm_size(comm, &mut size))?;
        let mut lengths = vec![0 as c_int; size as usize];
        let to = lengths.as_mut_ptr().cast();
        succeeded(real::PMPI_Allgather(
            (&raw const length).cast(),
            one,
            byte,
            to,
            one,
            byte,
            comm,
        ))?;
        lengths
    };
    let (mut total, mut offsets): (c_int, _) = (0, Vec::with_capacity(lengths.len()));
    for &length in &lengths {
        offsets.push(total);
        total = total.checked_add(length).ok_or(ERR_INTERN)?;
    }
    let mut all = vec![0u8; total as usize];
    let (lengths, places) = (&lengths, &offsets);
    // SAFETY: a valid communicator; room for what each process sends.
    succeeded(unsafe {
        let (from, to) = (from.as_ptr().cast(), all.as_mut_ptr().cast());
        real::PMPI_Allgatherv(from, length, byte, to, lengths.as_ptr(), places.as_ptr(), byte, comm)
    })?;
    let parts = places.iter().zip(lengths);
    parts
        .map(|(&at, &length)| {
            let part = &all[at as usize..(at + length) as usize];
            bincode::decode_from_slice(part, standard()).map(|(value, _)| value)
        })
        .collect::<Result<_, _>>()
        .map_err(|_| ERR_INTERN)
}

/// Which number of all is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    Least,
    Greatest,
}

/// The extreme of each place in what the processes of `comm` have, as many numbers each. A collective, `MPI_Allreduce` (MPI 4.1,
/// chapter 6.9).
///
/// # Errors
/// The class of the error of the real procedure; `MPI_ERR_INTERN` if they are more than 2³¹.
pub fn extremes(comm: RealComm, extreme: Extreme, own: &[u64]) -> Result<Vec<u64>, c_int> {
    let uint64 = real_datatype(VirtDatatype(predefined_handle("ompi_mpi_uint64_t")));
    let op = real_op(VirtOp(predefined_handle(match extreme {
        Extreme::Least => "ompi_mpi_op_min",
        Extreme::Greatest => "ompi_mpi_op_max",
    })));
    let count = c_int::try_from(own.len()).map_err(|_| ERR_INTERN)?;
    let mut all = vec![0; own.len()];
    // SAFETY: a valid communicator; as many numbers on either side.
    succeeded(unsafe {
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        real::PMPI_Allreduce(from, to, count, uint64, op, comm)
    })?;
    Ok(all)
}

/// Whether all processes of `comm` say so. A collective like [`extremes`].
///
/// # Errors
/// Those of [`extremes`].
pub fn all_say(comm: RealComm, own: bool) -> Result<bool, c_int> {
    Ok(extremes(comm, Extreme::Least, &[own.into()])? == [1])
}
