//! Record of the set-up phase, and its replay.
//!
//! [`Runtime`] has the state of this crate and of the crates below.

pub mod journal;
mod journal_runtime;

pub use journal_runtime::{DOOR, Runtime};
use understudy_base::{arch, cell, events, generated, sys, told};
use understudy_job::world;
use understudy_objects::{handles, objects, requests};
