//! Numbers that a job's workers, processes, epochs and generations are known by.
//!
//! Each kind is a type, so that one is never taken for another. In messages and files they are what
//! they are made of.
#![forbid(unsafe_code)]

use bincode::{Decode, Encode};
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
    /// A worker: its rank in the program's `MPI_COMM_WORLD`, whichever process plays it.
    Worker(u32)
);
number!(
    /// A process of the program: unique in the job, rises with each that is started.
    ///
    /// The first ones have the ranks of the launcher's world, which are those of their guardians.
    ProcessNumber(u32)
);
number!(
    /// A spare, counted from 0.
    Spare(u32)
);
number!(
    /// A guardian, by its rank in what the launcher has started.
    Guardian(u32)
);
number!(
    /// A checkpoint; 0 is before the first.
    Epoch(u64)
);
number!(
    /// One world of the job's MPI library; the first is 0.
    Generation(u32)
);
number!(
    /// A rank in the library's `MPI_COMM_WORLD` of one generation.
    Rank(u32)
);

impl Worker {
    /// All workers of a job that has so many.
    pub fn all(count: u32) -> impl DoubleEndedIterator<Item = Worker> + ExactSizeIterator + Clone {
        (0..count).map(Worker)
    }

    /// The worker with this place in a list of all.
    pub fn at(index: usize) -> Worker {
        Worker(index as u32)
    }

    /// Its place in a list of all.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ProcessNumber {
    /// Its place in a list of all.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl Epoch {
    /// Before the first checkpoint.
    pub const NONE: Epoch = Epoch(0);

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl Generation {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl Rank {
    /// Its place in a list of all.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
