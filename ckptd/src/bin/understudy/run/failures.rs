//! Failures before the start of a job.

use crate::outcome::{Failure, USAGE};
use std::fmt::Display;

/// The job could not be started: no launcher, too few slots, another MPI.
pub const NOT_STARTED: u8 = 125;

/// Returns the failure of a wrong command or setting.
pub fn usage(message: impl Display) -> Failure {
    Failure::with_status(USAGE, message)
}

/// Returns the failure of a job that was not started.
pub fn cannot(message: impl Display) -> Failure {
    Failure::with_status(NOT_STARTED, message)
}
