//! Record of the set-up phase, and its replay.
//!
//! [`Runtime`] contains the state of this crate and of the crates below.

pub mod journal;
mod journal_runtime;

pub use journal_runtime::{DOOR, Runtime};
use understudy_base::{arch, events, generated, process_info, runtime_state, system_calls};
use understudy_job::world;
use understudy_objects::{handles, objects, requests};
