//! Collectives that give every process the values of all processes.

use bincode::config::standard;
use understudy_mpi as mpi;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;

/// Returns the values of all processes of `comm`, in the order of their ranks.
///
/// Collective over `comm`.
///
/// # Errors
/// Fails with the error of a real procedure, or with [`mpi::Error::INTERN`] if the values exceed
/// 2 GiB or cannot be decoded.
pub fn gather_from_all<T>(comm: RealComm, own: &T) -> mpi::Result<Vec<T>>
where
    T: bincode::Encode + bincode::Decode<()>,
{
    let own = bincode::encode_to_vec(own, standard()).map_err(|_| mpi::Error::INTERN)?;
    let all = comm.gather_bytes(&own)?;
    let decoded = all
        .iter()
        .map(|bytes| bincode::decode_from_slice(bytes, standard()).map(|(value, _)| value));
    decoded
        .collect::<Result<_, _>>()
        .map_err(|_| mpi::Error::INTERN)
}

/// Returns true if `own` is true in all processes of `comm`.
///
/// Collective over `comm`.
///
/// # Errors
/// Fails with the error of the real procedure.
pub fn all_true(comm: RealComm, own: bool) -> mpi::Result<bool> {
    Ok(comm.allreduce_min_max(Extreme::Least, &[own.into()])? == [1])
}
