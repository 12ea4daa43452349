//! Errors that prevent the start of the daemon.

use thiserror::Error;

/// Error that prevents the start of the daemon.
#[derive(Debug, Error)]
pub enum StartError {
    /// Another daemon serves this socket.
    #[error("a daemon serves {0} already; jobs can use it, or give this one another --socket")]
    Running(String),
    /// The socket's path is unsuitable.
    ///
    /// The directory is not private to this user, or the path names a file that is not a socket.
    #[error("{0}")]
    UnsuitablePath(String),
    /// Options that contradict each other.
    #[error("{0}")]
    Options(String),
    /// A system call has failed.
    #[error("{subject}: {error}")]
    System {
        /// Action that has failed, with its path or address: `cannot …`.
        subject: String,
        error: std::io::Error,
    },
}

impl StartError {
    /// Returns a function for `map_err` that wraps the error of a system call.
    pub fn system(subject: impl Into<String>) -> impl FnOnce(std::io::Error) -> StartError {
        let subject = subject.into();
        move |error| StartError::System { subject, error }
    }
}
