//! Numbers of a job's workers, processes, checkpoints and generations.
//!
//! Each kind of number is a type, so that one cannot be mistaken for another. Messages and files
//! contain the plain integers.
#![forbid(unsafe_code)]

mod number_list;

use bincode::{Decode, Encode};
pub use number_list::{NumberList, WorkerList};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Encode, Decode)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A worker: its rank in the program's `MPI_COMM_WORLD`, in whichever process it runs.
    Worker(u32)
);
number!(
    /// A process of the program, spares included.
    ///
    /// The processes that are started with the job have the numbers of their guardians. A process
    /// that replaces another process gets a higher number, which was not used before. Only a
    /// process that is started again before a checkpoint exists gets the number of the process
    /// that was killed.
    ProcessNumber(u32)
);
number!(
    /// A spare, counted from 0.
    Spare(u32)
);
number!(
    /// A guardian: its rank among the processes that the launcher has started.
    Guardian(u32)
);
number!(
    /// A checkpoint; 0 stands for the time before the first checkpoint.
    Epoch(u64)
);
number!(
    /// A generation, one initialisation of the job's MPI library; the first is 0.
    Generation(u32)
);
number!(
    /// A rank in the MPI library's `MPI_COMM_WORLD` of one generation.
    Rank(u32)
);

impl Worker {
    /// Returns all workers of a job with `count` workers.
    pub fn all(count: u32) -> impl DoubleEndedIterator<Item = Worker> + ExactSizeIterator + Clone {
        (0..count).map(Worker)
    }

    /// Returns the worker with this index in a list of all workers.
    pub fn at(index: usize) -> Worker {
        Worker(index as u32)
    }

    /// Returns the index in a list of all workers.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ProcessNumber {
    /// Returns the index in a list of all processes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Epoch {
    /// The time before the first checkpoint.
    pub const NONE: Epoch = Epoch(0);

    /// Returns the number of the next checkpoint.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl Generation {
    /// Returns the number of the next generation.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl Rank {
    /// Returns the index in a list of all ranks.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
