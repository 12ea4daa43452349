//! Replicas of ranks in their buddies, and the schedule of checkpoints.
//!
//! - [`copies`]: capture, transfer and commit of replicas;
//! - [`schedule`], [`overdue`]: the times of checkpoints, and the watchdog for missing ones;
//! - [`headroom`]: available memory for replicas;
//! - [`marks`], [`recompute`], [`step_back`]: annotations of the program;
//! - [`clock`]: clocks that continue after a recovery;
//! - [`ending`]: end of a job that cannot continue.
//!
//! [`Runtime`] contains the state of these modules and of the crates below.

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
