//! State of this process across MPI instances.

use crate::runtime_state::StateCell;
use std::ffi::c_int;
use std::os::fd::OwnedFd;
use std::time::Duration;
use understudy_mpi::side::Snapshot;
use understudy_numbers::ProcessNumber;

/// Time to wait for a message before the manager's page is reread.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// State of the MPI side, and replica stores of failed processes.
pub struct InstanceState {
    /// State for the reinit of the library.
    pub(super) instance: StateCell<ReinitState>,
    /// Replica stores that failed processes have left to this process.
    pub(super) received_stores: StateCell<ReceivedStores>,
}

impl InstanceState {
    /// Returns the state at the start of the process.
    pub const fn start() -> InstanceState {
        InstanceState {
            instance: StateCell::new(ReinitState {
                before_init: None,
                level: 0,
                is_first: false,
                spares: 0,
                failed_at: None,
            }),
            received_stores: StateCell::new(ReceivedStores::START),
        }
    }
}

/// State of the MPI side, and of the current MPI instance.
pub struct ReinitState {
    pub before_init: Option<Snapshot>,
    /// Thread level for `MPI_Init`.
    pub level: c_int,
    /// True if the job begins with this MPI instance, as sent by the manager.
    pub is_first: bool,
    pub spares: u32,
    pub failed_at: Option<u64>,
}

/// Replica store of a failed process, handed over to this process.
pub struct ReplicaStoreFiles {
    /// Number of the failed process.
    pub from: ProcessNumber,
    /// Status of the failed process, as wait(2) returns it.
    pub status: c_int,
    pub files: [OwnedFd; 2],
}

/// Replica stores of failed processes that have arrived at this process.
pub struct ReceivedStores {
    /// Process whose replica store has arrived last.
    pub of: Option<ProcessNumber>,
    /// Replica store that is not used yet.
    pub unused: Option<ReplicaStoreFiles>,
}

impl ReceivedStores {
    /// State at the start of the process.
    pub const START: ReceivedStores = ReceivedStores {
        of: None,
        unused: None,
    };
}
