//! Phases of a job.

use std::time::Duration;

/// Phase of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Guardians join.
    Gathering,
    /// Processes start, or leave the MPI library of the last generation.
    Joining,
    /// A generation has begun.
    Running,
    /// All processes are killed, in order to restart the program from its beginning.
    Restarting,
    /// The job ends; processes that still run at the deadline are killed.
    ///
    /// The deadline is `None` after a successful end, and when the processes have been killed.
    Ending { deadline: Option<Duration> },
    /// Guardians were sent [`ToGuardian::Leave`](understudy_messages::ToGuardian::Leave).
    Over,
}
