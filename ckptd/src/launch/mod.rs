//! The launcher: starts the ranks of a job and replaces those that fail.
//!
//! A protected job has a [`guardian`] for each process, whatever has started the guardians
//! ([`starter`], or a launcher of an MPI library), and one manager for each node ([`job`]), which
//! has the servers of the MPI library (`understudy_pmi`).

/// A line on standard error. That nobody reads it, or a full disk, does not end this process, as `eprintln` would.
macro_rules! say {
    ($($text:tt)*) => {{
        // At once: others write there, too.
        let line = format!("{}\n", format_args!($($text)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}

mod children;
mod doubt;
mod duty;
mod error;
mod exchange;
mod follower;
mod forward;
pub mod guardian;
pub mod hosts;
mod hub;
mod input;
pub mod job;
mod launchers;
mod leader;
mod link;
mod mail;
pub mod meeting;
mod memory;
mod node;
#[cfg(test)]
#[path = "../../sockets/src/other_user.rs"]
mod other_user;
mod output;
mod parent;
mod passed;
mod pipe;
pub mod place;
pub mod plan;
mod preload_library;
mod process;
pub mod remote;
mod segments;
mod servers;
mod several;
mod share;
pub mod starter;
mod talk;
mod ward;

pub use error::Error;
pub use output::{UNWRITTEN, is_unwanted};
pub use parent::end_with_parent;
pub use preload_library::preload_library;

/// Starts a thread. `std::thread::spawn` panics where no more threads are allowed.
fn thread(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().spawn(run).map(drop)
}
