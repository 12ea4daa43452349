//! A guardian: the parent of a process of the program.
//!
//! A launcher starts guardians and is not affected by the death of a process of the program.

mod guarded_process;
mod guardian_process;
mod guardian_sockets;
mod hang_watch;
mod input;
mod input_spool;
mod launcher_position;
mod launchers;
mod leader_address;
mod lost_manager;
mod manager_watch;
mod memory_kills;
mod passed_signals;
mod process_memory;
mod process_sample;
mod process_start;
mod program;
mod spawned_children;
mod stack_walk;
mod unprotected;

pub use guardian_process::run;
pub use leader_address::meet;
pub use program::Program;
