//! Leftovers of killed jobs on a node.
//!
//! Leftovers are files of a job in memory (ledgers, undo logs and backups), Open MPI's segments,
//! and directories for event files. Files of living jobs and of other users are never leftovers.

mod dead_jobs;
mod event_directories;
mod file_use;
mod leftover;
mod leftovers;
mod open_mpi_segments;

pub use dead_jobs::leftovers_of_job;
pub use event_directories::EVENTS_PREFIX;
pub use file_use::{is_in_use, is_own};
pub use leftover::{Leftover, LeftoverNames};
pub use leftovers::leftovers_of_node;
