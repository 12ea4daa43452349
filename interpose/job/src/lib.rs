//! This process among the other processes of its job.
//!
//! - [`world`]: workers and spares of the present MPI instance;
//! - [`reinit`]: the connection to the process manager, and reinit: one MPI instance after
//!   another;
//! - [`peers`], [`domains`]: hosts of the processes, and failure domains;
//! - [`disk`]: checkpoints in files;
//! - [`daemon`]: the daemon that grants spares;
//! - [`control_messages`], [`max_allreduce`]: control messages and reductions among runtimes.
//!
//! [`Runtime`] contains the state of these modules and of the crates below.

pub mod control_messages;
pub mod daemon;
pub mod disk;
pub mod domains;
mod job_runtime;
pub mod max_allreduce;
pub mod peers;
pub mod reinit;
pub mod world;

pub use job_runtime::{DOOR, Runtime};
use understudy_base::{
    errors, fault, gather, generated, process_info, role, runtime_state, shim, system_calls,
};
use understudy_program::user;
