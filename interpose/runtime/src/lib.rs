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
//! - [`protection`], [`raise`]: reasons for running unprotected, and MPI error handlers.
//!
//! The crates below have the state of the job: docs/ARCHITECTURE.md, "Crates of the runtime".

pub mod boot;
pub mod calls;
pub mod checkpoint;
pub mod completion;
pub mod cut;
pub mod drain;
pub mod entry;
pub mod job;
pub mod protection;
pub mod raise;
mod spare;

use understudy_base::{
    arch, attention, cell, errors, events, fault, gather, generated, shim, sys, told,
};
use understudy_copies::{
    clock, copies, ending, headroom, marks, overdue, recompute, schedule, step_back,
};
use understudy_job::{daemon, disk, domains, own_messages, renewal, rounds, world};
use understudy_journal::journal;
use understudy_objects::{abi, early, exposure, handles, objects, posting, rendezvous, requests};
use understudy_program::{fatal, user};
use understudy_recovery::{DOOR, Runtime, attempt, recovery, rehearsal};
