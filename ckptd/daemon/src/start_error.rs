//! Reasons for which the daemon does not start.

use thiserror::Error;

/// The reason for which the daemon does not start.
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
        /// Action that has failed.
        what: String,
        error: std::io::Error,
    },
}

impl StartError {
    /// Returns a conversion, for `map_err`, of the failure of a system call.
    pub fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> StartError {
        let what = what.into();
        move |error| StartError::System { what, error }
    }
}
