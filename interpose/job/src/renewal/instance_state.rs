//! State of this process in the generations of its job.

use crate::cell::Field;
use std::ffi::c_int;
use std::os::fd::OwnedFd;
use std::time::Duration;
use understudy_mpi::side::Snapshot;
use understudy_numbers::ProcessNumber;

/// Time to wait for a message of the manager before the page is read again.
pub const LOOK: Duration = Duration::from_millis(20);

/// State of the library's side, and files of failed processes.
pub struct InstanceState {
    /// How the library is initialised again.
    pub(super) instance: Field<Renewal>,
    /// Files that failed processes have handed over.
    pub(super) heir: Field<Heir>,
}

impl InstanceState {
    /// State at the start of the process.
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

/// State of the library's side, and of the generation.
pub struct Renewal {
    pub before_init: Option<Snapshot>,
    /// The thread level that MPI_Init asks for.
    pub level: c_int,
    /// True if the job begins with this generation, as the manager has sent it.
    pub is_first: bool,
    pub spares: u32,
    pub failed_at: Option<u64>,
}

/// Files that a failed process has handed over to this one.
pub struct Inheritance {
    /// Number of the failed process.
    pub from: ProcessNumber,
    /// Status of the failed process, as wait(2) returns it.
    pub status: c_int,
    pub files: [OwnedFd; 2],
}

/// Files of failed processes that have arrived here.
pub struct Heir {
    /// Process whose files have arrived last.
    pub of: Option<ProcessNumber>,
    /// Files that are not used yet.
    pub inheritance: Option<Inheritance>,
}

impl Heir {
    /// State at the start of the process.
    pub const START: Heir = Heir {
        of: None,
        inheritance: None,
    };
}
