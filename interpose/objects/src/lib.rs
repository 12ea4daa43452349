//! The program's view of MPI.
//!
//! - [`handles`], [`abi`]: virtual handles, and handles of programs with another ABI than Open
//!   MPI's;
//! - [`objects`]: communicators, groups, datatypes, operators, windows, files, and how to rebuild
//!   them;
//! - [`requests`], [`posting`]: requests that are not complete, and how they are started;
//! - [`drained`]: drained messages, which a cut has received before the program requests them;
//! - [`exposure`]: general active target synchronization of windows;
//! - [`rendezvous`]: ports of this process.
//!
//! [`Runtime`] contains the state of these modules and of the crates below.

pub mod abi;
pub mod drained;
pub mod exposure;
pub mod handles;
pub mod objects;
mod objects_runtime;
pub mod posting;
pub mod rendezvous;
pub mod requests;

pub use objects_runtime::{DOOR, Runtime};
use understudy_base::{
    arch, errors, fault, gather, generated, process_info, runtime_state, work_flags,
};
use understudy_job::{control_messages, reinit, world};
use understudy_program::user;
