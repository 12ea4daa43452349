//! The first message on a connection.

use bincode::{Decode, Encode};
use understudy_numbers::{Guardian, ProcessNumber};

/// Sender of the first message.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum Hello {
    /// A guardian: a process that the launcher has started.
    Guardian {
        rank: Guardian,
        workers: u32,
        spares: u32,
        /// True if new spares are started in place of spares that have died unused.
        replenishes: bool,
        /// True if the guardian had another manager before.
        ///
        /// The guardian then sends its state.
        had_manager: bool,
    },
    /// A process of the program, which registers with its guardian.
    Process {
        number: ProcessNumber,
        /// File name of the process's MPI library.
        library: String,
    },
    /// A command of the user, which requests the death and replacement of processes.
    ///
    /// Sent to a manager, which answers with a [`ReplaceAnswer`].
    Replace(ReplaceTarget),
    /// A command of the user, which requests the activities of all processes of a guardian.
    ///
    /// The guardian answers with a list of [`crate::ProcessActivity`].
    ReadActivities,
}

/// Processes that are to be replaced.
#[derive(Clone, PartialEq, Eq, Debug, Encode, Decode)]
pub enum ReplaceTarget {
    Process(ProcessNumber),
    /// All processes of the host with this name.
    Host(String),
    /// All processes of the host with this name, at a checkpoint and without loss.
    ///
    /// The answer follows when the host has no process of the job.
    DrainedHost(String),
}

/// Answer to [`Hello::Replace`]: the host of the processes, or the reason of a refusal.
pub type ReplaceAnswer = Result<String, String>;
