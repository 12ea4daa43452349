//! `ckptd serve`: the daemon, one for each user and node.
//!
//! The daemon keeps the pools of spares of all the user's jobs on the node.
//!
//! Modules: `server` is the event loop; it polls sockets and deadlines, and never waits for a
//! single client. `service` answers messages, without sockets. `connection` is a client with
//! bounded buffers and deadlines. `daemon_socket` makes the socket and checks its owner. [`pool`]
//! is a state machine of the spares. `sweeper` removes the leftovers of killed jobs, in a thread
//! of its own. `metrics` has the figures for monitoring, and `ring` the last events.
//!
//! Jobs choose spares themselves if no daemon runs. The daemon stores nothing on disk; after a
//! restart, spares register again.

mod connection;
mod daemon_socket;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod metrics;
pub mod pool;
mod ring;
mod server;
mod service;
mod start_error;
mod sweeper;

pub use daemon_socket::default_socket;
pub use server::{Options, serve};
pub use start_error::StartError;
