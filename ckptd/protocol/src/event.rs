//! Inputs of the state machine.

use bincode::{Decode, Encode};
use std::time::Duration;
use understudy_messages::ToManager;
use understudy_numbers::{Generation, Guardian, ProcessNumber, Worker};

/// Where guardians are, and where what their processes have handed over stays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Node(pub u32);

/// Nodes that fail as a whole, a rack, say (UNDERSTUDY_DOMAIN).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domain(pub u32);

/// How a process has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It has ended itself, with this status.
    Exit(i32),
    /// A signal has ended it.
    Signal(i32),
    /// A signal has ended it that the launcher has sent to it.
    Asked(i32),
    /// The kernel has killed it for want of memory.
    ///
    /// A replacement would not have that memory either.
    Memory,
}

impl Ending {
    /// As a shell tells it.
    pub fn status(self) -> i32 {
        match self {
            Ending::Exit(status) => status,
            Ending::Signal(signal) | Ending::Asked(signal) => 128 + signal,
            Ending::Memory => 128 + 9,
        }
    }
}

/// What is left of a process that another manager has known, which has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Encode, Decode)]
pub struct Known {
    /// The generation that it was told last; its own, if it has been in one.
    pub generation: Generation,
    /// It has used MPI.
    pub is_heard: bool,
    /// It has been in a generation that has begun, or has inherited.
    pub has_played: bool,
    /// It has gone on with the program in one.
    pub has_part: bool,
    /// Somebody had, when its generation began.
    pub is_protected: bool,
    /// It may have been told that all workers are at their end.
    pub has_ended: bool,
    /// The worker whose copies it has handed over, or inherited.
    pub keeps: Option<Worker>,
    /// It has inherited what this one had handed over.
    pub heir_of: Option<ProcessNumber>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A guardian has come, on this node, and has told all that it knows ([`Event::Known`]).
    Came(Guardian, Node),
    /// A guardian has died, and its processes with it.
    Gone(Guardian),
    /// Before the guardian comes: a process that it has started for another manager. If that has
    /// ended, this is told when all guardians have come.
    Known(ProcessNumber, Guardian, Known),
    /// A node belongs to a domain; one of which this is never said is a domain of its own.
    Belongs(Node, Domain),
    /// A node is lost after this time of silence, with all that was there.
    Lost(Node, Duration),
    /// A process uses MPI: its program does, or the next one of its script.
    Called(ProcessNumber),
    /// A message of a process. The job has no use for those about spawned processes and boards.
    Message(ProcessNumber, ToManager),
    /// A process has ended. Before the first has been started, one that has been asked to end
    /// stands for its guardian.
    Ended(ProcessNumber, Ending),
    /// The output of a process that has ended has come to its end: so many bytes, to standard
    /// output.
    Closed(ProcessNumber, u64),
    /// The MPI library of a process has given up in this generation, as it may when another process
    /// dies. (A program's own abort is [`ToManager::Abort`].)
    Broke(ProcessNumber, Generation),
    /// The job cannot go on, and is to end with this status.
    Abort(i32),
    Tick,
}
