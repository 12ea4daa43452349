//! The first message on a line.

use bincode::{Decode, Encode};
use understudy_numbers::{Guardian, ProcessNumber};

/// What a process or a guardian is.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Hello {
    /// One of the processes that a launcher has started.
    Guardian {
        rank: Guardian,
        workers: u32,
        spares: u32,
        /// New spares are to be started in place of those that have died unused.
        replenishes: bool,
        /// It has had another manager, and tells what there is.
        is_again: bool,
    },
    /// A process of the program, which calls its guardian.
    Process {
        number: ProcessNumber,
        /// The file of its MPI library.
        library: String,
    },
}
