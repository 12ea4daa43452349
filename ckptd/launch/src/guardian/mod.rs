//! A guardian: the parent of a process of the program.
//!
//! A launcher starts guardians and is not affected by the death of a process of the program.

mod guardian_process;
mod input;
mod input_spool;
mod launchers;
mod meeting;
mod memory_kills;
mod passed_signals;
mod process_start;
mod program;
mod seat;
mod spawned_children;
mod unprotected;
mod ward;

pub use guardian_process::run;
pub use meeting::meet;
pub use program::Program;
