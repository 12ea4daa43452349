//! The launcher: starts the ranks of a job and replaces those that fail.
//!
//! Each of the folders `starter`, `guardian` and `manager` is a process. A protected job has a
//! [`guardian`] for each process of the program, started by [`starter`] or by the launcher of an
//! MPI library. Each node has a [`manager`], one of which contains the `leader`. The folder
//! `messages` has the messages of managers, leader and starter; `understudy_messages` has those of
//! ranks and guardians.

mod error;
mod fence_keeper;
mod fence_tie;
mod find_program;
pub mod guardian;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod job_directory;
mod job_environment;
mod job_requests;
mod leader;
pub mod manager;
mod manager_process;
mod messages;
#[cfg(test)]
#[path = "../../sockets/src/other_user.rs"]
mod other_user;
mod output;
mod preload_library;
mod print_message;
mod process_context;
mod published_addresses;
mod refused_start;
mod request_signals;
mod spawn_thread;
pub mod starter;
mod streams;
mod tied_child;

pub use error::Error;
pub use fence_keeper::keep_fence;
pub use find_program::find_program;
pub use job_environment::Environment;
pub use job_requests::{JobActivities, activities, replace};
pub use manager_process::inherited;
pub use output::is_unwanted;
pub use preload_library::preload_library;
pub use print_message::print_message;
pub use process_context::own_program;
pub use refused_start::refuse;
pub use streams::Streams;
pub use tied_child::end_with_parent;
pub use understudy_wire::line::{Activity, CallPlace, ProcessActivity, ReplaceTarget, StackFrame};
