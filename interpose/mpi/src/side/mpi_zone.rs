//! The MPI side's half of the reserved range.

use understudy_abi::{MPI_ZONE_START, ZONE_END};

/// True if an address is in the MPI side's half of the reserved range.
pub(crate) fn is_mpi(address: usize) -> bool {
    (MPI_ZONE_START..ZONE_END).contains(&address)
}
