//! The MPI library's half of the zone.

use understudy_abi::{MPI_ZONE_START, ZONE_END};

/// True if an address lies in the library's half of the zone.
pub(crate) fn is_mpi(address: usize) -> bool {
    (MPI_ZONE_START..ZONE_END).contains(&address)
}
