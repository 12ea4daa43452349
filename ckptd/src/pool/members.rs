//! Names and figures of pools.

use bincode::{Decode, Encode};
use std::time::Duration;
use thiserror::Error;
use understudy_numbers::ProcessNumber;

/// A job, as the daemon tells jobs apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// Whose it is: jobs of different realms do not know of each other. 0 is the own user on this node, others are the tokens.
    pub realm: u32,
    /// The launcher's name of it.
    pub name: String,
}

/// Never given out twice by a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Token(pub u64);

/// What a spare has got for its registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Ticket {
    /// Of this registration.
    pub token: Token,
}

/// A spare, as it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Spare {
    /// Its rank in the launcher's world.
    pub rank: ProcessNumber,
    /// Its process on its host.
    pub pid: u32,
    /// The process that has started it, if that is on the same node; else 0.
    pub launcher: u32,
    /// Its host.
    pub host: String,
    /// What fails together with it.
    pub domain: String,
    /// Workers of its job on its host.
    pub workers: u32,
}

/// How many spares a job wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Limits {
    /// Below it, spares are asked for.
    pub minimum: u32,
    /// Above it, they are refused.
    pub maximum: u32,
}

impl Limits {
    /// Whether there is a number between them.
    pub(super) fn check(self) -> Result<(), Refusal> {
        match self.minimum <= self.maximum && self.maximum > 0 {
            true => Ok(()),
            false => Err(Refusal::BadLimits),
        }
    }
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

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Encode, Decode)]
pub enum Refusal {
    /// Unknown job.
    #[error("there is no such job")]
    NoJob,
    /// A ticket or lease that is not in force (any more).
    #[error("this ticket or lease is not in force")]
    Stale,
    /// Another process is registered under this rank.
    #[error("another process is registered as this rank")]
    RankTaken,
    /// The pool has its maximum.
    #[error("the pool has as many spares as it may have")]
    Full,
    /// Minimum above maximum, or a maximum of 0.
    #[error("the minimum of spares is above the maximum, or the maximum is 0")]
    BadLimits,
    /// Spares have gone to a later round already.
    #[error("a later round of leases has begun")]
    LateRound,
    /// The same round, but another question.
    #[error("this round was asked for other parts before")]
    OtherNeeds,
    /// More jobs than a daemon takes.
    #[error("there are too many jobs")]
    TooManyJobs,
    /// More parts than a daemon gives out at once.
    #[error("too many parts are asked for at once")]
    TooManyNeeds,
}
