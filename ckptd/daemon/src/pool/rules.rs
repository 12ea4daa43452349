//! Identification of a job, and the limits of a daemon.

use std::time::Duration;

/// Identification of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// Number of the token with which the job's clients have authenticated, from 1.
    ///
    /// The number is 0 for clients on the Unix socket, which need no token. Jobs of different
    /// realms are invisible to each other.
    pub realm: u32,
    /// Name of the job, as given by the launcher.
    pub name: String,
}

/// Timeouts and limits of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Time after which a silent spare is dead.
    pub silence: Duration,
    /// Time after which an unconfirmed lease ends.
    pub lease: Duration,
    /// Time after which missing spares that were requested are requested again.
    ///
    /// Also the time without requests after a spare has left.
    pub replenish: Duration,
    /// Limit of jobs.
    pub jobs: usize,
    /// Limit of needs in one request.
    pub needs: usize,
    /// Number of idle spares, of all jobs together, at which no more are started.
    pub spares: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(10),
            lease: Duration::from_secs(60),
            replenish: Duration::from_secs(30),
            jobs: 256,
            needs: 1024,
            spares: u32::MAX,
        }
    }
}
