//! Inputs of the state machine.

use bincode::{Decode, Encode};
use std::time::Duration;
use understudy_messages::ToManager;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};

/// A node: the place of guardians and of the replica stores of their processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Node(pub u32);

/// A failure domain: nodes that fail together, such as a rack (UNDERSTUDY_DOMAIN).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain(pub u32);

/// Reason for the end of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The process has exited with this status.
    Exit(i32),
    /// The process was killed by this signal.
    Signal(i32),
    /// The process was killed by a signal that the launcher has sent.
    LauncherSignal(i32),
    /// The process was killed by the kernel because memory was exhausted.
    ///
    /// A new process in its place would exhaust the memory as well.
    OutOfMemory,
}

impl Ending {
    /// Returns the exit status as a shell reports it.
    pub fn status(self) -> i32 {
        match self {
            Ending::Exit(status) => status,
            Ending::Signal(signal) | Ending::LauncherSignal(signal) => 128 + signal,
            Ending::OutOfMemory => 128 + 9,
        }
    }
}

/// State that survives the death of a manager, for one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct ProcessHistory {
    /// Last generation that the process was in or was notified of.
    pub generation: Generation,
    /// True if the process has used MPI.
    pub has_used_mpi: bool,
    /// True if the process was in a begun generation, or has adopted a replica store.
    pub was_in_generation: bool,
    /// True if the process has continued the program in a generation.
    pub has_resumed: bool,
    /// True if any process had continued the program when this process's generation began.
    pub is_protected: bool,
    /// True if the process may have been notified that all workers are in `MPI_Finalize`.
    pub has_ended: bool,
    /// Worker whose replicas are in the process's replica store.
    pub replicas_of: Option<Worker>,
    /// Process from which this process has adopted a replica store.
    pub adopted_from: Option<ProcessNumber>,
}

/// An input of the state machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A guardian of this node has joined; all its processes were reported
    /// ([`Event::ProcessReported`]).
    GuardianJoined(Guardian, Node),
    /// A guardian has died with its processes.
    GuardianDied(Guardian),
    /// A process that a guardian has started for an earlier manager.
    ///
    /// Reported before the guardian joins. If the process has ended, [`Event::Ended`] follows when
    /// all guardians have joined.
    ProcessReported(ProcessNumber, Guardian, ProcessHistory),
    /// A node belongs to a failure domain.
    ///
    /// Without this event a node is a domain of its own.
    NodeInDomain(Node, Domain),
    /// A node is lost, with all its processes and files, after this time of silence.
    NodeLost(Node, Duration),
    /// A process, or the next program of its script, has begun to use MPI.
    Registered(ProcessNumber),
    /// A message of a process.
    ///
    /// Messages about spawned processes and boards have no effect on the job.
    Message(ProcessNumber, ToManager),
    /// A process has ended.
    ///
    /// Before the first process is started, [`Ending::LauncherSignal`] reports a signal that the
    /// launcher has sent to the guardian of this number.
    Ended(ProcessNumber, Ending),
    /// The output of a process has ended after this number of bytes on standard output.
    OutputClosed(ProcessNumber, u64),
    /// The MPI library of a process has aborted in this generation.
    ///
    /// Libraries may do so when another process dies. A program's own abort is
    /// [`ToManager::Abort`].
    LibraryAborted(ProcessNumber, Generation),
    /// The job cannot continue and ends with this status.
    Abort(i32),
    /// A process must be killed and replaced, because it hangs or on request.
    Replace(ProcessNumber),
    /// The processes of a node must leave the job at a checkpoint.
    Drain(Node),
    /// Time has passed ([`Job::deadline`](crate::Job::deadline)).
    Tick,
}
