//! What every process has, at every process.

use bincode::config::standard;
use understudy_mpi as mpi;
use understudy_mpi::comm::Extreme;
use understudy_mpi::real_types::RealComm;

/// The values of all processes of `comm`, in the order of their ranks. A collective.
///
/// # Errors
/// That of a real procedure; [`mpi::Error::INTERN`] if they do not fit into 2 GiB, or cannot be
/// read.
pub fn everybodys<T>(comm: RealComm, own: &T) -> mpi::Result<Vec<T>>
where
    T: bincode::Encode + bincode::Decode<()>,
{
    let own = bincode::encode_to_vec(own, standard()).map_err(|_| mpi::Error::INTERN)?;
    let all = comm.gather_bytes(&own)?;
    let decoded = all
        .iter()
        .map(|part| bincode::decode_from_slice(part, standard()).map(|(value, _)| value));
    decoded
        .collect::<Result<_, _>>()
        .map_err(|_| mpi::Error::INTERN)
}

/// Whether all processes of `comm` say so. A collective.
///
/// # Errors
/// That of the real procedure.
pub fn all_say(comm: RealComm, own: bool) -> mpi::Result<bool> {
    Ok(comm.extremes(Extreme::Least, &[own.into()])? == [1])
}
