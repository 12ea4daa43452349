//! `ckptd serve`: the daemon of a node and user, which keeps the pools of spares of all jobs there.
//!
//! One thread and one loop ([`server`]): it waits for sockets and deadlines, takes what has come,
//! and never waits for a single client. What messages mean is in [`service`], which has no sockets;
//! a client, with its bounded buffers and deadlines, is a [`connection`]; where the socket lies and
//! who may have it is in [`daemon_socket`]. The spares are in [`pool`], a state machine.
//!
//! Jobs do not depend on it: they choose spares themselves when it is not there. Nothing is kept on
//! disk; after a restart, spares register again.

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
