//! Recovery: from the detection of a failure to the resumed program.
//!
//! - [`recovery`]: recovery after a failure;
//! - [`rehearsal`]: trial replays, and static data that replicas omit.
//!
//! [`Runtime`] has the state of these modules and of the crates below.

pub mod recovery;
mod recovery_runtime;
pub mod rehearsal;

pub use recovery_runtime::{DOOR, Runtime};
pub use understudy_base::arch::Rewound;
use understudy_base::{arch, cell, errors, events, fault, gather, generated, shim, sys, told};
use understudy_copies::{
    clock, copies, ending, headroom, marks, overdue, recompute, schedule, step_back,
};
use understudy_job::{daemon, disk, domains, own_messages, peers, renewal, world};
use understudy_journal::journal;
use understudy_objects::{abi, early, handles, objects, posting, rendezvous, requests};
use understudy_program::user;
