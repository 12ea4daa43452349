//! Phases of a job.

use std::time::Duration;

/// Phase of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Guardians join.
    Gathering,
    /// Processes leave the MPI library of the last generation.
    Joining,
    /// A generation has begun.
    Running,
    /// All processes are killed and will be started from the beginning.
    Restarting,
    /// The job ends; processes that still run at the deadline are killed.
    Ending { deadline: Option<Duration> },
    /// Guardians were sent [`ToGuardian::Leave`](understudy_messages::ToGuardian::Leave).
    Over,
}
