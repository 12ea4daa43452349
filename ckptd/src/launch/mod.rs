//! The process manager of the ranks' MPI library: an unmodified MPI program starts without mpirun.
//!
//! An MPI library learns from a process manager who its process is, and exchanges addresses through it. Open MPI asks a PMIx server
//! ([`pmix`]), MPICH and what derives from it a PMI-1 server ([`pmi1`]). Which one a program needs is read from its libraries ([`program`]).
//!
//! ```text
//!   Namespace { name: job.7, placement: which rank is on which host }
//!        │ begin                                    end │
//!        ▼                                              ▼
//!   Manager ── identity(rank): variables, descriptor ──► process of the rank ── MPI_Init
//!        └──── Event: connected, finalised, abort ◄─────────────┘
//! ```
//!
//! A [`Namespace`] is one MPI_COMM_WORLD of exactly W ranks. The server outlives it: when a rank has died, the generation is ended and all
//! ranks initialise MPI again in the next one, in new processes or in the same ones. To the library each generation is a job of its own (a PMIx
//! namespace, a PMI-1 key space), so nothing of an ended one can reach a later one.
//!
//! [`local`] starts the processes of a generation on this node. A protected job has a [`guardian`] for each process, whatever has started those
//! ([`starter`], or a launcher of an MPI library's), and one manager ([`job`]).

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
mod generation;
pub mod guardian;
pub mod hosts;
mod hub;
mod input;
pub mod job;
mod launchers;
mod leader;
mod link;
pub mod local;
pub mod local_peer;
mod mail;
mod manager;
pub mod meeting;
mod memory;
mod node;
mod output;
mod overflow;
mod parent;
mod passed;
mod peers;
mod pipe;
pub mod place;
pub mod plan;
pub mod pmi1;
pub mod pmix;
mod process;
pub mod program;
pub mod remote;
mod several;
mod share;
pub mod starter;
mod talk;
mod ward;

pub use error::Error;
pub use generation::{Name, Namespace, Placement, Preput, Spawned};
pub use manager::{Event, Identity, Manager, PLACELESS, Settings, What};
pub use output::{UNWRITTEN, is_unwanted};
pub use parent::end_with_parent;
pub use peers::{Alone, Answer, Fence, Members, Modex, Peers, Purpose, Spawn};
pub use understudy_numbers::Rank;

/// Starts a thread. `std::thread::spawn` panics where no more threads are allowed.
fn thread(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().spawn(run).map(drop)
}
