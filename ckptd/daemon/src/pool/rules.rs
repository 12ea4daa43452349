//! The name of a pool, and its rules.

use std::time::Duration;

/// A job, as the daemon tells jobs apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// Owner of the job: 0 for the user of the daemon on this node, else the number of a token.
    ///
    /// Jobs of different realms are invisible to each other.
    pub realm: u32,
    /// The launcher's name of it.
    pub name: String,
}

/// The timeouts of a daemon, and how much it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A spare that has been silent for so long is dead.
    pub silence: Duration,
    /// A lease that is not confirmed within this time goes back.
    pub lease: Duration,
    /// Spares that were asked for and have not come within this time are asked for again.
    pub replenish: Duration,
    /// How many jobs there may be.
    pub jobs: usize,
    /// How many parts may be asked for at once.
    pub needs: usize,
    /// How many idle spares there may be, of all jobs together, if new ones are started.
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
