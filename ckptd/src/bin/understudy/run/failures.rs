//! Failures before the start of a job.

use crate::outcome::{Failure, USAGE};
use std::fmt::Display;
use understudy_catalogue::exit_status;

/// Returns the failure of a wrong command or setting.
pub fn usage(message: impl Display) -> Failure {
    Failure::with_status(USAGE, message)
}

/// Returns the failure of a job that was not started.
///
/// Reasons are, for example, a missing launcher, too few slots or an unsupported MPI library.
pub fn cannot(message: impl Display) -> Failure {
    Failure::with_status(exit_status::NOT_STARTED as u8, message)
}
