//! Recovery: from the detection of a failure to the resumed program.
//!
//! - [`recovery`]: recovery after a failure;
//! - [`static_data`]: trial replays, and static data that replicas omit.
//!
//! [`Runtime`] has the state of these modules and of the crates below.

pub mod recovery;
mod recovery_runtime;
pub mod static_data;

pub use recovery_runtime::{DOOR, Runtime};
pub use understudy_base::arch::Rewound;
use understudy_base::{
    arch, errors, events, fault, gather, generated, process_info, runtime_state, shim, system_calls,
};
use understudy_copies::{
    abort, annotations, checkpoint_watchdog, clock, copies, headroom, recompute,
    reverse_computation, schedule,
};
use understudy_job::{control_messages, daemon, disk, domains, peers, reinit, world};
use understudy_journal::journal;
use understudy_objects::{abi, drained, handles, objects, posting, rendezvous, requests};
use understudy_program::user;
