//! Changes of the pool of a job.

use understudy_numbers::{ProcessNumber, Worker};

/// Change of a job's pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A spare has registered.
    Registered { rank: ProcessNumber },
    /// A spare has gone by itself, alive: the job has ended, or the daemon's client was closed in
    /// order.
    Left { rank: ProcessNumber },
    /// A spare is dead: it was silent for too long, or its connection has broken.
    Died { rank: ProcessNumber, silent: bool },
    /// A spare is leased to the part of a worker.
    Leased {
        rank: ProcessNumber,
        worker: Worker,
        round: u64,
    },
    /// A lease has come to nothing, and its spare is idle again.
    Returned { rank: ProcessNumber, worker: Worker },
    /// A spare plays the part of a worker.
    Playing { rank: ProcessNumber, worker: Worker },
    /// Spares are missing.
    Wanted { count: u32 },
}
