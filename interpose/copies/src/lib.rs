//! Replicas of ranks in their buddies, and when checkpoints are taken.
//!
//! - [`copies`]: replicas: capture, transfer, commit;
//! - [`schedule`], [`overdue`]: when a checkpoint is due, and the watchdog for missing ones;
//! - [`headroom`]: memory that is left for replicas;
//! - [`marks`], [`recompute`], [`step_back`]: annotations of the program;
//! - [`clock`]: clocks that run on after a recovery;
//! - [`ending`]: end of the job when it cannot go on.
//!
//! [`Runtime`] has the state of these modules and of the crates below.

pub mod clock;
pub mod copies;
mod copies_runtime;
pub mod ending;
pub mod headroom;
pub mod marks;
pub mod overdue;
pub mod recompute;
pub mod schedule;
pub mod step_back;

pub use copies_runtime::Runtime;
use understudy_base::{arch, attention, cell, events, fault, generated, role, sys, told};
use understudy_job::{disk, own_messages, peers, renewal, rounds, world};
use understudy_journal::journal;
use understudy_objects::{early, objects, requests};
use understudy_program::user;
