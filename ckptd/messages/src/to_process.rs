//! Messages to a process of the program.

use bincode::{Decode, Encode};
use understudy_numbers::{Generation, ProcessNumber, Rank};

/// A message from the manager or the guardian to a process.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ToProcess {
    /// The guardian's answer to the registration.
    ///
    /// The process's end of the connection to the manager comes with the message as a descriptor.
    Connection,
    /// The process's page, as a descriptor that comes with the message.
    ///
    /// `workers` is the number of workers that were started on this node.
    Page { workers: u32 },
    /// A new manager follows one that has died.
    ///
    /// Spares must report again that they are ready.
    ManagerReplaced,
    /// This process is a rank of a generation.
    Begin {
        generation: Generation,
        rank: Rank,
        size: u32,
        /// True if the job begins with this generation.
        is_first: bool,
        /// Number of spares that are left.
        spares: u32,
        /// Time of the failure from which the program has not recovered, in nanoseconds.
        ///
        /// The clock is CLOCK_MONOTONIC, which the processes of a node share.
        failed_at: Option<u64>,
        /// Names and values for the MPI library's environment.
        variables: Vec<(String, String)>,
        /// Variable for the number of the descriptor that comes with this message, if one comes.
        descriptor: Option<String>,
        /// Process whose replica store this process adopts.
        ///
        /// [`ToProcess::AdoptStore`] brings the store, before or after this message.
        adopts_from: Option<ProcessNumber>,
    },
    /// Requests placement hints: spares that should take over from these dead processes.
    RequestPlacementHints { failed: Vec<ProcessNumber> },
    /// The replica store of a dead process, sent by the guardian.
    ///
    /// The files come with the message. `status` is the status of the dead process as wait(2)
    /// returns it.
    AdoptStore { from: ProcessNumber, status: i32 },
    /// Answer to [`crate::ToManager::ReadBoards`]: [`Boards`], in a file that comes with the
    /// message.
    BoardContents { id: u64 },
    /// All workers are in `MPI_Finalize`; further deaths are ignored.
    End,
}

/// Contents of workers' boards.
///
/// Each entry has the bytes of a worker's file, empty if the worker has no file, or the reason why
/// the file cannot be read.
pub type Boards = Vec<Result<Vec<u8>, String>>;
