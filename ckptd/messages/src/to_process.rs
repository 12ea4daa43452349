//! Messages to a process of the program.

use bincode::{Decode, Encode};
use understudy_numbers::{Generation, ProcessNumber, Rank};

/// What the manager says to a process.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToProcess {
    /// Its guardian's answer: its end of the line to the manager, as a descriptor that comes with
    /// this.
    Line,
    /// Its page, as a descriptor that comes with this; so many workers were started on this node.
    Page { workers: u32 },
    /// Another manager follows one that has died: a spare is to say again that it is ready.
    Again,
    /// This process is a rank of a generation.
    Begin {
        generation: Generation,
        rank: Rank,
        size: u32,
        /// The job begins with it.
        is_first: bool,
        /// How many spares are left.
        spares: u32,
        /// Time of the failure that the program has not recovered from, in nanoseconds.
        ///
        /// The clock is CLOCK_MONOTONIC, which the processes of a node share.
        failed_at: Option<u64>,
        /// For the MPI library's environment: names and values.
        variables: Vec<(String, String)>,
        /// The variable that tells the number of the descriptor that comes with this message, if
        /// one does.
        descriptor: Option<String>,
        /// What this one has left has come before, or comes at once ([`ToProcess::Inherit`]).
        heir_of: Option<ProcessNumber>,
    },
    /// Which spares should take the parts of these processes, which have died?
    Ask { fallen: Vec<ProcessNumber> },
    /// With the files that a dead process has handed over: its number, and its status as wait(2)
    /// tells it. The guardian's word.
    Inherit { from: ProcessNumber, status: i32 },
    /// The answer to [`crate::ToManager::Look`], in a file that comes with this: [`Boards`].
    Shown { id: u64 },
    /// All workers are at the end: nobody's death matters any more.
    End,
}

/// What workers show: the bytes of each one's file, none if it has no file; or why that cannot be
/// read.
pub type Boards = Vec<Result<Vec<u8>, String>>;
