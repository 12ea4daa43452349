//! Spares, and their leases for dead workers.

use bincode::{Decode, Encode};
use thiserror::Error;
use understudy_numbers::{ProcessNumber, Worker};

/// Number that a daemon never issues twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct LeaseToken(pub u64);

/// Receipt of a spare's registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct SpareTicket {
    pub token: LeaseToken,
}

/// Spare, as registered by the spare itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Spare {
    /// Rank in the launcher's world.
    pub rank: ProcessNumber,
    /// Process id on the spare's host.
    pub pid: u32,
    /// Process id of the launcher on the spare's node; 0 if the launcher is elsewhere.
    pub launcher: u32,
    pub host: String,
    /// Failure domain.
    pub domain: String,
    /// Number of workers of the spare's job on the spare's host.
    pub workers: u32,
}

/// Location of a process.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ProcessLocation {
    pub host: String,
    /// Failure domain.
    pub domain: String,
}

/// Dead worker that needs a replacement.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SpareNeed {
    pub worker: Worker,
    /// Location of the failed process.
    pub failed: ProcessLocation,
    /// Locations of the replicas, the one that is fetched first in front.
    pub copies: Vec<ProcessLocation>,
}

/// Assignment of a spare to a dead worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Lease {
    pub worker: Worker,
    /// Rank of the spare in the launcher's world.
    pub rank: ProcessNumber,
    pub token: LeaseToken,
}

/// Limits of the number of spares of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SpareLimits {
    /// Number below which spares are requested.
    pub minimum: u32,
    /// Number above which spares are refused.
    pub maximum: u32,
}

impl SpareLimits {
    /// Checks that a positive number of spares is within the limits.
    ///
    /// # Errors
    /// Fails with [`Refusal::BadLimits`] otherwise.
    pub fn check(self) -> Result<(), Refusal> {
        match self.minimum <= self.maximum && self.maximum > 0 {
            true => Ok(()),
            false => Err(Refusal::BadLimits),
        }
    }
}

/// Reason why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Encode, Decode)]
pub enum Refusal {
    #[error("there is no such job")]
    NoJob,
    /// The ticket or lease is not valid, or not any more.
    #[error("this ticket or lease is not in force")]
    Stale,
    /// Another process is registered under this rank.
    #[error("another process is registered as this rank")]
    RankTaken,
    /// The pool has its maximum number of spares.
    #[error("the pool has as many spares as it may have")]
    Full,
    /// The minimum is above the maximum, or the maximum is 0.
    #[error("the minimum of spares is above the maximum, or the maximum is 0")]
    BadLimits,
    /// Spares have already been leased in a later round.
    #[error("a later round of leases has begun")]
    LateRound,
    /// The request repeats a round with other workers.
    #[error("this round was requested for other workers before")]
    OtherNeeds,
    /// The daemon has its maximum number of jobs.
    #[error("there are too many jobs")]
    TooManyJobs,
    /// The request contains more workers than a daemon handles at once.
    #[error("spares are requested for too many workers at once")]
    TooManyNeeds,
}
