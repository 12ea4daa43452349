//! State of one process of the program.

use crate::{Ending, Known};
use understudy_numbers::{Generation, Guardian, Worker};

#[derive(Debug)]
pub struct Member {
    pub at: Guardian,
    /// Last generation for which the process was ready.
    pub ready: Option<Generation>,
    /// True if the process was in a generation that has begun.
    ///
    /// Before that the process is a spare.
    pub has_played: bool,
    /// True if the process has run a worker.
    pub has_part: bool,
    /// True if the process's MPI library has aborted.
    pub is_broken: bool,
    /// True if the process was started in place of a spare that was used up.
    pub is_replacement: bool,
    /// Number of times that the process was started again before it used MPI.
    pub revivals: u32,
    /// Worker whose replicas are in the replica store of the process.
    pub keeps: Option<Worker>,
    /// True if the process can give placement hints.
    pub can_choose: bool,
    pub ending: Option<Ending>,
    /// True if the process has printed to standard output; `None` until its output has ended.
    pub has_printed: Option<bool>,
}

impl Member {
    pub fn new(at: Guardian) -> Member {
        Member {
            at,
            ready: None,
            has_played: false,
            has_part: false,
            is_broken: false,
            is_replacement: false,
            revivals: 0,
            keeps: None,
            can_choose: false,
            ending: None,
            has_printed: None,
        }
    }

    /// Returns the state of a process that was started for an earlier manager.
    pub fn known(at: Guardian, known: &Known) -> Member {
        Member {
            ready: known.is_heard.then_some(known.generation),
            has_played: known.has_played,
            has_part: known.has_part,
            keeps: known.keeps,
            ..Member::new(at)
        }
    }

    /// Returns the state with which the process begins the next program of a script.
    pub fn anew(&self) -> Member {
        Member {
            ending: self.ending,
            has_printed: self.has_printed,
            ..Member::new(self.at)
        }
    }

    pub fn lives(&self) -> bool {
        self.ending.is_none()
    }

    /// True if the process has used MPI.
    pub fn is_heard(&self) -> bool {
        self.ready.is_some()
    }

    /// True if the process was killed by a signal.
    pub fn is_killed(&self) -> bool {
        matches!(self.ending, Some(Ending::Signal(_)))
    }

    /// True if the process is an idle spare.
    pub fn is_spare(&self) -> bool {
        !self.has_played && self.is_heard() && self.lives()
    }

    /// True if the process has exited and its output has ended.
    pub fn is_over(&self) -> bool {
        self.ending.is_some() && self.has_printed.is_some()
    }
}
