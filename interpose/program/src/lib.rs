//! State of the program side, except its pages, which `understudy_image` saves.
//!
//! - [`user`]: files, undo logs, threads, timers, libraries, thread-local storage, signals, output;
//! - [`kernel_state`]: a table of all state that Linux keeps for a process;
//! - [`fatal`]: fatal signals.
//!
//! This crate depends neither on other processes of the job nor on MPI objects.

pub mod fatal;
pub mod kernel_state;
pub mod user;

use understudy_base::{
    arch, process_info, request_signals, role, runtime_state, shim, system_calls, unwinder,
    work_flags,
};
