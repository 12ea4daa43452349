//! Decisions of the runtimes of a job, as pure functions and state machines.
//!
//! No MPI, no clock, no input or output.
//!
//! * [`placement`], [`redundancy`]: which worker keeps replicas of which, whole or as parity;
//! * [`recovery_plan`]: replacements and sources of the memory after failures;
//! * [`agreement`], [`assembly`], [`gathering`]: where the workers take a checkpoint, and in which
//!   order threads enter collectives meanwhile;
//! * [`communicator_plan`]: an order in which communicators are made in a new MPI instance;
//! * [`habit`]: when asking a buddy for equal pages pays;
//! * [`pace`]: intervals between checkpoints;
//! * [`packed`]: compression of what is kept for long;
//! * [`dispositions`]: treatment of each system call during a replay;
//! * [`ranges`]: ranges of a file.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod assembly;
pub mod communicator_plan;
#[cfg(test)]
mod dice;
pub mod dispositions;
pub mod gathering;
pub mod habit;
pub mod pace;
pub mod packed;
pub mod placement;
pub mod ranges;
pub mod recovery_plan;
pub mod redundancy;
