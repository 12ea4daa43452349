//! A process of the program, as the manager knows it.

use crate::{Ending, Known};
use understudy_numbers::{Generation, Guardian, Worker};

#[derive(Debug)]
pub struct Member {
    pub at: Guardian,
    /// The last generation that it was ready for.
    pub ready: Option<Generation>,
    /// It has been in a generation that has begun; before that it is a spare.
    pub has_played: bool,
    /// It has played a worker.
    pub has_part: bool,
    /// Its MPI library has given up.
    pub is_broken: bool,
    /// It was started in place of a spare that was used up.
    pub is_replacement: bool,
    /// How often it was started again before anybody had heard of it.
    pub revivals: u32,
    /// The worker whose copies it has handed over.
    pub keeps: Option<Worker>,
    /// It can be asked which spares should take parts.
    pub can_choose: bool,
    pub ending: Option<Ending>,
    /// Whether anything came by its standard output, once that has ended.
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

    /// One that another manager has known.
    pub fn known(at: Guardian, known: &Known) -> Member {
        Member {
            ready: known.is_heard.then_some(known.generation),
            has_played: known.has_played,
            has_part: known.has_part,
            keeps: known.keeps,
            ..Member::new(at)
        }
    }

    /// The same when the next program of a script begins.
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

    /// It has used MPI.
    pub fn is_heard(&self) -> bool {
        self.ready.is_some()
    }

    /// A signal has ended it.
    pub fn is_killed(&self) -> bool {
        matches!(self.ending, Some(Ending::Signal(_)))
    }

    /// It waits until it is needed.
    pub fn is_spare(&self) -> bool {
        !self.has_played && self.is_heard() && self.lives()
    }

    /// Nothing of it will come any more.
    pub fn is_over(&self) -> bool {
        self.ending.is_some() && self.has_printed.is_some()
    }
}
