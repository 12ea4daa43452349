//! Replicas of ranks in their buddies, and the schedule of checkpoints.
//!
//! - [`copies`]: capture, transfer and commit of replicas;
//! - [`schedule`], [`checkpoint_watchdog`]: the times of checkpoints, and the watchdog for missing
//!   ones;
//! - [`requested_checkpoint`]: requests for a checkpoint on disk;
//! - [`headroom`]: available memory for replicas;
//! - [`annotations`], [`recompute`], [`reverse_computation`]: annotations of the program;
//! - [`clock`]: clocks that continue after a recovery;
//! - [`abort`]: end of a job that cannot continue.
//!
//! [`Runtime`] contains the state of these modules and of the crates below.

pub mod abort;
pub mod annotations;
pub mod checkpoint_watchdog;
pub mod clock;
pub mod copies;
mod copies_runtime;
pub mod headroom;
pub mod recompute;
pub mod requested_checkpoint;
pub mod reverse_computation;
pub mod schedule;

pub use copies_runtime::Runtime;
use understudy_base::{
    arch, events, fault, generated, mpi_devices, process_info, request_signals, role,
    runtime_state, system_calls, work_flags,
};
use understudy_job::{control_messages, disk, max_allreduce, peers, reinit, world};
use understudy_journal::journal;
use understudy_objects::{drained, handles, objects, requests};
use understudy_program::user;
