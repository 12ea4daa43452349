//! The runtime library: entry, handlers of MPI procedures, cuts and checkpoints.
//!
//! ```text
//!   thunk → entry::ENTRIES → calls::* → { objects, requests, cut, recovery } → real MPI
//! ```
//!
//! - [`boot`]: start of the runtime;
//! - [`entry`], [`calls`]: entries, and one handler per MPI procedure (most are generated);
//! - [`job`], `spare`: `MPI_Init`, `MPI_Finalize`, and processes that wait as spares;
//! - [`completion`]: tests and waits;
//! - [`cut`], [`drain`], [`checkpoint`]: a consistent state, messages in flight, replicas;
//! - [`protection`], [`error_handling`]: loss of protection, and MPI error handlers.
//!
//! The crates below contain the state of the job: docs/design/state.md.

pub mod boot;
pub mod calls;
pub mod checkpoint;
pub mod completion;
pub mod cut;
pub mod drain;
pub mod entry;
pub mod error_handling;
pub mod job;
mod network;
pub mod protection;
mod spare;

use understudy_base::{
    arch, errors, events, fault, gather, generated, mpi_devices, process_info, request_signals,
    runtime_state, shim, system_calls, work_flags,
};
use understudy_copies::{
    abort, annotations, checkpoint_watchdog, clock, copies, headroom, recompute,
    requested_checkpoint, reverse_computation, schedule,
};
use understudy_job::{control_messages, daemon, disk, domains, max_allreduce, reinit, world};
use understudy_journal::journal;
use understudy_objects::{abi, drained, exposure, handles, objects, posting, rendezvous, requests};
use understudy_program::{fatal, user};
use understudy_recovery::{DOOR, Runtime, attempt, recovery, static_data};
