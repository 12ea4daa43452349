//! Errors that prevent the start of the daemon.

use thiserror::Error;

/// Error that prevents the start of the daemon.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another daemon serves this socket.
    #[error("a daemon serves {0} already")]
    Running(String),
    /// The directory or socket is unsuitable, or another file is in its place.
    #[error("{0}")]
    Place(String),
    /// Options that contradict each other.
    #[error("{0}")]
    Options(String),
    /// A system call has failed.
    #[error("{what}: {error}")]
    System {
        /// Action that has failed.
        what: String,
        error: std::io::Error,
    },
}

impl StartError {
    /// Returns a function for `map_err` that wraps the error of a system call.
    pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StartError {
        let what = what.into();
        move |error| StartError::System { what, error }
    }
}
