//! This process among the other processes of its job.
//!
//! - [`world`]: workers and spares of the present MPI instance;
//! - [`renewal`]: the connection to the process manager, and reinit: one MPI instance after
//!   another;
//! - [`peers`], [`domains`]: hosts of the processes, and failure domains;
//! - [`disk`]: checkpoints in files;
//! - [`daemon`]: the daemon that grants spares;
//! - [`own_messages`], [`rounds`]: control messages and reductions among runtimes.
//!
//! [`Runtime`] contains the state of these modules and of the crates below.

pub mod daemon;
pub mod disk;
pub mod domains;
mod job_runtime;
pub mod own_messages;
pub mod peers;
pub mod renewal;
pub mod rounds;
pub mod world;

pub use job_runtime::{DOOR, Runtime};
use understudy_base::{cell, errors, fault, gather, generated, role, shim, sys, told};
use understudy_program::user;
