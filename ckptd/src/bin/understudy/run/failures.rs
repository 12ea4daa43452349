//! Failures before the start of a job.

use crate::outcome::{Failure, USAGE};
use std::fmt::Display;

/// Exit status if the job could not be started.
///
/// Reasons are a missing launcher, too few slots or an unsupported MPI library.
pub const NOT_STARTED: u8 = 125;

/// Returns the failure of a wrong command or setting.
pub fn usage(message: impl Display) -> Failure {
    Failure::with_status(USAGE, message)
}

/// Returns the failure of a job that was not started.
pub fn cannot(message: impl Display) -> Failure {
    Failure::with_status(NOT_STARTED, message)
}
