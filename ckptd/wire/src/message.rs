//! Messages of the protocol. Any change here requires a new [`super::VERSION`].

use crate::spares::{Lease, LeaseToken, Refusal, Spare, SpareLimits, SpareNeed};
use bincode::{Decode, Encode};
use understudy_numbers::{ProcessNumber, Worker};

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Proves that the client has a token; its first message over TCP. Answer: `Welcome`.
    Prove { proof: [u8; 32] },
    /// Registers the client as a spare while the connection lasts. Answer: `Welcome`.
    Register {
        /// The launcher's name of the job.
        job: String,
        spare: Spare,
        /// Limits of the job's number of spares.
        limits: SpareLimits,
    },
    /// The spare is alive. No answer.
    Beat,
    /// The spare has replaced a worker and leaves the pool. No answer.
    Replaced { worker: Worker },
    /// The spare exits, because the job has ended. No answer.
    Leave,
    /// Requests spares for dead workers. Answer: `Leased`.
    Lease {
        /// The launcher's name of the job.
        job: String,
        /// Number of this round of leases, which grows with each attempt at a recovery.
        round: u64,
        needs: Vec<SpareNeed>,
    },
    /// Reports the number of spares, so that missing spares can be started. Answer: `Start`.
    Replenish {
        /// The launcher's name of the job.
        job: String,
        /// Current number of spares.
        spares: u32,
        /// Initial number of spares.
        aim: u32,
    },
    /// Returns an unused lease. No answer.
    GiveBack {
        /// The launcher's name of the job.
        job: String,
        token: LeaseToken,
    },
    /// Requests the state of all jobs. Answer: `Status`.
    Status,
}

/// Answer of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Answer {
    /// First message over TCP.
    Challenge {
        /// Number that is never used twice.
        nonce: [u8; 32],
    },
    /// The request has been executed.
    Welcome,
    /// Spares for the dead workers, as far as available.
    Leased(Vec<Lease>),
    /// Number of spares that may be started.
    Start {
        count: u32,
    },
    Status(Vec<JobStatus>),
    /// The pool refuses the request.
    Refused(Refusal),
    /// The daemon refuses this client and closes the connection.
    Closed(String),
}

/// State of a job's pool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobStatus {
    /// The launcher's name of the job.
    pub job: String,
    /// Spares in the pool.
    pub spares: Vec<SpareStatus>,
    /// Ranks of former spares that have replaced workers.
    pub replacements: Vec<ProcessNumber>,
    /// Number of requested spares that have not registered yet.
    pub wanted: u32,
    /// Recent events.
    pub events: Vec<Event>,
}

/// Spare in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct SpareStatus {
    /// Registration of the spare.
    pub spare: Spare,
    /// Dead worker for which the spare is leased.
    pub leased: Option<Worker>,
}

/// Event in the pool of a job.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Event {
    /// Nanoseconds since 1970.
    pub at: u64,
    pub what: String,
}
