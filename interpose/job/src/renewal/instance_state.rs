//! State of this process across MPI instances.

use crate::cell::Field;
use std::ffi::c_int;
use std::os::fd::OwnedFd;
use std::time::Duration;
use understudy_mpi::side::Snapshot;
use understudy_numbers::ProcessNumber;

/// Time to wait for a message of the manager before the page is reread.
pub const LOOK: Duration = Duration::from_millis(20);

/// State of the MPI side, and replica stores of failed processes.
pub struct InstanceState {
    /// State for the reinit of the library.
    pub(super) instance: Field<Renewal>,
    /// Replica stores that failed processes have left to this process.
    pub(super) heir: Field<Heir>,
}

impl InstanceState {
    /// Returns the state at the start of the process.
    pub const fn start() -> InstanceState {
        InstanceState {
            instance: Field::new(Renewal {
                before_init: None,
                level: 0,
                is_first: false,
                spares: 0,
                failed_at: None,
            }),
            heir: Field::new(Heir::START),
        }
    }
}

/// State of the MPI side, and of the current MPI instance.
pub struct Renewal {
    pub before_init: Option<Snapshot>,
    /// Thread level for `MPI_Init`.
    pub level: c_int,
    /// True if the job begins with this MPI instance, as sent by the manager.
    pub is_first: bool,
    pub spares: u32,
    pub failed_at: Option<u64>,
}

/// Replica store of a failed process, handed over to this process.
pub struct Inheritance {
    /// Number of the failed process.
    pub from: ProcessNumber,
    /// Status of the failed process, as wait(2) returns it.
    pub status: c_int,
    pub files: [OwnedFd; 2],
}

/// Replica stores of failed processes that have arrived at this process.
pub struct Heir {
    /// Process whose replica store has arrived last.
    pub of: Option<ProcessNumber>,
    /// Replica store that is not used yet.
    pub inheritance: Option<Inheritance>,
}

impl Heir {
    /// State at the start of the process.
    pub const START: Heir = Heir {
        of: None,
        inheritance: None,
    };
}
