//! Members of a job: processes of the program, living or dead.

use crate::{Ending, ProcessHistory};
use understudy_numbers::{Generation, Guardian, Worker};

/// State of one process of the program.
#[derive(Debug)]
pub struct Member {
    /// Guardian that has started the process.
    pub at: Guardian,
    /// Last generation for which the process was ready; `None` until the process has used MPI.
    pub ready: Option<Generation>,
    /// True if the process was in a generation that has begun.
    ///
    /// Before that the process is a spare.
    pub was_in_generation: bool,
    /// True if the process has run a worker.
    pub has_resumed: bool,
    /// True if the process's MPI library has aborted.
    pub is_broken: bool,
    /// True if the process was started in place of a spare.
    ///
    /// The spare has died or taken over.
    pub is_replacement: bool,
    /// Number of times that the process was started again before it used MPI.
    pub revivals: u32,
    /// Worker whose replicas are in the replica store of the process.
    pub replicas_of: Option<Worker>,
    /// True if the process can give placement hints.
    pub can_give_hints: bool,
    pub ending: Option<Ending>,
    /// True if the process has printed to standard output; `None` until its output has ended.
    pub has_printed: Option<bool>,
}

impl Member {
    pub fn new(at: Guardian) -> Member {
        Member {
            at,
            ready: None,
            was_in_generation: false,
            has_resumed: false,
            is_broken: false,
            is_replacement: false,
            revivals: 0,
            replicas_of: None,
            can_give_hints: false,
            ending: None,
            has_printed: None,
        }
    }

    /// Returns the state of a process that was started for an earlier manager.
    pub fn from_history(at: Guardian, history: &ProcessHistory) -> Member {
        Member {
            ready: history.has_used_mpi.then_some(history.generation),
            was_in_generation: history.was_in_generation,
            has_resumed: history.has_resumed,
            replicas_of: history.replicas_of,
            ..Member::new(at)
        }
    }

    /// Returns the state with which the process begins the next program of a script.
    pub fn for_next_program(&self) -> Member {
        Member {
            ending: self.ending,
            has_printed: self.has_printed,
            ..Member::new(self.at)
        }
    }

    pub fn is_alive(&self) -> bool {
        self.ending.is_none()
    }

    /// True if the process has used MPI.
    pub fn has_used_mpi(&self) -> bool {
        self.ready.is_some()
    }

    /// True if the process was killed by a signal.
    pub fn is_killed(&self) -> bool {
        matches!(self.ending, Some(Ending::Signal(_)))
    }

    /// True if the process is an idle spare.
    pub fn is_spare(&self) -> bool {
        !self.was_in_generation && self.has_used_mpi() && self.is_alive()
    }

    /// True if the process has exited and its output has ended.
    pub fn is_over(&self) -> bool {
        self.ending.is_some() && self.has_printed.is_some()
    }
}
