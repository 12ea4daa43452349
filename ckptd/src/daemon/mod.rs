//! `ckptd serve`: the daemon of a node and user, which keeps the pools of spares of all jobs there.
//!
//! One thread and one loop ([`server`]): it waits for sockets and deadlines, takes what has come, and never waits for a single
//! client. What messages mean is in [`service`], which has no sockets; a client, with its bounded buffers and deadlines, is a
//! [`connection`]; where the socket lies and who may have it is in [`place`].
//!
//! Jobs do not depend on it: they choose spares themselves when it is not there. Nothing is kept on disk; after a
//! restart, spares register again.

mod connection;
#[cfg(any(test, fuzzing))]
pub mod hostile;
mod metrics;
mod place;
mod ring;
mod server;
mod service;
mod sweeper;

pub use place::default_socket;
pub use server::{Options, serve};

use thiserror::Error;

/// Why the daemon does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another one serves this socket.
    #[error("a daemon serves {0} already")]
    Running(String),
    /// The directory or socket is not fit, or in the way.
    #[error("{0}")]
    Place(String),
    /// Settings that do not go together.
    #[error("{0}")]
    Options(String),
    /// The system does not give what is needed.
    #[error("{what}: {error}")]
    System {
        /// What was to be done.
        what: String,
        error: std::io::Error,
    },
}

impl StartError {
    fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StartError {
        let what = what.into();
        move |error| StartError::System { what, error }
    }
}
