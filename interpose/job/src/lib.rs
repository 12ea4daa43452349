//! This process among the other processes of its job.
//!
//! - [`world`]: workers and spares of the present MPI instance;
//! - [`reinit`]: the connection to the node manager, and the reinit of the MPI library;
//! - [`peers`], [`domains`]: hosts, exit statuses and failure domains of the processes;
//! - [`disk`]: checkpoints in files;
//! - [`daemon`]: connection to the daemon, which ranks spares and grants new ones;
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
    arch, errors, fault, gather, generated, process_info, role, runtime_state, shim, system_calls,
};
use understudy_program::user;
