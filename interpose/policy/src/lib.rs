//! Decisions of the runtimes of a job, as pure functions and state machines.
//!
//! The crate uses no MPI, no clock, no input and no output.
//!
//! * [`placement`], [`redundancy`]: placement of replicas, whole or as parity;
//! * [`cut_agreement`], [`memory_demand`]: agreement of stopped workers to take a checkpoint;
//! * [`pending_stages`], [`max_reduction`]: stages of a checkpoint until its commit, and the votes;
//! * [`recovery_attempt`], [`meeting`], [`replica_inventory`], [`recovery_plan`]: stages and plan
//!   of a recovery, with replacements and sources of replicas;
//! * [`candidate_schedule`], [`agreement`]: agreement on the time of a checkpoint;
//! * [`assembly`], [`gathering`]: order in which threads enter collectives and constructors;
//! * [`communicator_plan`]: order in which communicators are created in a new MPI instance;
//! * [`query_policy`]: decision when to query a buddy for equal pages;
//! * [`pace`]: intervals between checkpoints;
//! * [`compression`]: compression of data that are stored for long;
//! * [`syscall_dispositions`]: treatment of each system call during a replay;
//! * [`ranges`]: ranges of a file.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod assembly;
pub mod candidate_schedule;
pub mod communicator_plan;
pub mod compression;
pub mod cut_agreement;
#[cfg(test)]
mod dice;
pub mod gathering;
pub mod max_reduction;
pub mod meeting;
pub mod memory_demand;
pub mod pace;
pub mod pending_stages;
pub mod placement;
mod plan_input;
mod process_report;
pub mod query_policy;
pub mod ranges;
pub mod recovery_attempt;
pub mod recovery_plan;
pub mod redundancy;
pub mod replica_inventory;
pub mod syscall_dispositions;
mod takeovers;
