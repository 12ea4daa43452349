//! Changes of the pool of a job.

use understudy_numbers::{ProcessNumber, Worker};

/// Change of a job's pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolChange {
    /// A spare has registered.
    Registered { rank: ProcessNumber },
    /// A spare has left alive: the job has ended, or the client was closed normally.
    Left { rank: ProcessNumber },
    /// A spare is dead: it was silent for too long, or its connection was lost.
    Died { rank: ProcessNumber, silent: bool },
    /// A spare is leased for a worker.
    Leased {
        rank: ProcessNumber,
        worker: Worker,
        round: u64,
    },
    /// A lease was not used, and its spare is idle again.
    Returned { rank: ProcessNumber, worker: Worker },
    /// A spare has taken over from a worker.
    TookOver { rank: ProcessNumber, worker: Worker },
    /// The job has too few spares, and requests this number of additional ones.
    Wanted { count: u32 },
}
