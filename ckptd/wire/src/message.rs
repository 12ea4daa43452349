//! The messages. Changing anything here is a new [`super::VERSION`].

use crate::spares::{Lease, Limits, Need, Refusal, Spare, Token};
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Ask {
    /// It knows a token; only over TCP, where it must come first. Answer: `Welcome`.
    Prove { proof: [u8; 32] },
    /// This client is a spare, from now on as long as the connection lasts. Answer: `Welcome`.
    Register {
        /// The launcher's name of the job.
        job: String,
        spare: Spare,
        /// How many spares the job wants.
        limits: Limits,
    },
    /// The spare lives. No answer.
    Beat,
    /// The spare plays the part of a worker and is not in the pool any more. No answer.
    Playing { worker: Worker },
    /// The spare goes, since the job has ended. No answer.
    Leave,
    /// Spares for dead workers are wanted. Answer: `Leased`.
    Lease {
        /// The launcher's name of the job.
        job: String,
        /// The number of this round of leases; it grows with every attempt at a recovery.
        round: u64,
        needs: Vec<Need>,
    },
    /// Some spares are used up, and others could be started. Answer: `Start`.
    Replenish {
        /// The launcher's name of the job.
        job: String,
        /// How many there are.
        spares: u32,
        /// How many there were at first.
        aim: u32,
    },
    /// A lease is not used. No answer.
    GiveBack {
        /// The launcher's name of the job.
        job: String,
        token: Token,
    },
    /// What is known of all jobs. Answer: `Status`.
    Status,
}

/// What the daemon says.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Answer {
    /// Over TCP, before anything else.
    Challenge {
        /// Never the same twice.
        nonce: [u8; 32],
    },
    /// What was asked for is done.
    Welcome,
    /// Spares for the parts, as far as there are any.
    Leased(Vec<Lease>),
    /// So many spares may be started.
    Start {
        count: u32,
    },
    Status(Vec<JobStatus>),
    /// The pool does not do this.
    Refused(Refusal),
    /// The daemon does not answer this client, and closes the connection.
    Closed(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobStatus {
    /// The launcher's name of it.
    pub job: String,
    /// Spares in the pool.
    pub spares: Vec<SpareStatus>,
    /// Ranks of former spares that play parts.
    pub players: Vec<ProcessNumber>,
    /// Spares that were asked for and have not come yet.
    pub wanted: u32,
    /// What has happened last.
    pub events: Vec<Event>,
}

/// A spare in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SpareStatus {
    /// What it says of itself.
    pub spare: Spare,
    /// The worker whose part it is leased to.
    pub leased: Option<Worker>,
}

/// Something that has happened to a job's pool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Event {
    /// Nanoseconds since 1970.
    pub at: u64,
    pub what: String,
}
