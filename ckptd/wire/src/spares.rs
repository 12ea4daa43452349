//! Spares, and the parts that they are leased to.

use bincode::{Decode, Encode};
use thiserror::Error;
use understudy_numbers::{ProcessNumber, Worker};

/// Never given out twice by a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Token(pub u64);

/// What a spare has got for its registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct Ticket {
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
    pub host: String,
    /// What fails together with it.
    pub domain: String,
    /// Workers of its job on its host.
    pub workers: u32,
}

/// Where a process is or was.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Place {
    pub host: String,
    /// What fails together with it.
    pub domain: String,
}

/// A part that has to be taken.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Need {
    pub worker: Worker,
    /// Where it has died.
    pub failed: Place,
    /// Where the copies of its memory are, the one that will be taken first.
    pub copies: Vec<Place>,
}

/// A spare is to take a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Lease {
    pub worker: Worker,
    /// Rank of the spare in the launcher's world.
    pub rank: ProcessNumber,
    pub token: Token,
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
    /// Fails if no number of spares is within the limits.
    pub fn check(self) -> Result<(), Refusal> {
        match self.minimum <= self.maximum && self.maximum > 0 {
            true => Ok(()),
            false => Err(Refusal::BadLimits),
        }
    }
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Encode, Decode)]
pub enum Refusal {
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
