//! Agreement of the workers on a cut at any call.
//!
//! The module contains the state of one worker, without messages.
//!
//! ```text
//!   requested ─► gathering ──────────► standing ─────────────► confirming ────────► cut
//!                all poll at each call   all have stood still    all stand still
//!                     │ objection            │ objection,            │ resumed
//!                     └────────► over ◄──────┴───────────────────────┘
//! ```
//!
//! The agreement consists of three votes ([`AgreementVotes`], [`crate::max_reduction`]), which the
//! diagram calls gathering, standing and confirming. A vote ends when all workers have voted.
//!
//! - After its first vote, a worker polls at each communication call and never blocks without
//!   polling. So a worker that has seen the end of the first vote may stand still: workers that
//!   wait for its messages still poll, and take part in the second vote.
//! - Before its third vote, a worker may enter a call that cannot be interrupted, such as a
//!   collective. The worker announces its resumption ([`Agreement::resume`]), so that workers which
//!   stand still and wait for its vote resume, too. Its own vote then objects, so no cut is taken.
//! - A program may wait outside of MPI, for memory or a file for example, for a worker that stands
//!   still. So a worker that has stood still for long before its third vote resumes, too. After its
//!   third vote this is not necessary: by the end of the second vote all workers have arrived at a
//!   call, from which they either vote or resume.
//!
//! All workers number the attempts equally, because no worker begins an attempt before it has seen
//! the end of the previous one.

#[cfg(test)]
mod agreement_tests;
mod votes;

pub use votes::{AgreementVotes, VoteAction, VoteKind, WorkerState};

/// Permitted action of a worker at a call where it could stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallAction {
    /// Resume the program.
    Resume,
    /// Stand still, and poll.
    Stop,
    /// Take the cut, which all workers do.
    Cut,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VotePhase {
    #[default]
    Over,
    FirstVote,
    /// Second vote; `agrees` is true if this worker has agreed.
    SecondVote {
        agrees: bool,
    },
    /// Third vote; `agrees` is true if this worker knew of no resumption in this attempt.
    ThirdVote {
        agrees: bool,
    },
    /// The workers have agreed on a cut.
    Agreed,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    number: u64,
    /// Last attempt during which a worker has resumed.
    last_resumed: u64,
    phase: VotePhase,
}

impl Agreement {
    /// State before the first attempt.
    pub const NONE: Agreement = Agreement {
        number: 0,
        last_resumed: 0,
        phase: VotePhase::Over,
    };

    /// Returns the number of the current or last attempt.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the last attempt during which a worker has resumed.
    pub fn last_resumed(&self) -> u64 {
        self.last_resumed
    }

    /// True if an attempt is under way.
    pub fn is_under_way(&self) -> bool {
        self.phase != VotePhase::Over
    }

    /// Begins an attempt by this worker's first vote.
    ///
    /// From now on the worker polls at each call.
    pub fn begin(&mut self) {
        self.number += 1;
        self.phase = VotePhase::FirstVote;
    }

    /// Records the end of the first vote.
    ///
    /// Returns this worker's second vote, which is true if it agrees; `None` if the attempt is
    /// over.
    pub fn end_first_vote(&mut self, all_agree: bool, agrees: bool) -> Option<bool> {
        let agrees = agrees && self.last_resumed < self.number;
        self.phase = match all_agree {
            true => VotePhase::SecondVote { agrees },
            false => VotePhase::Over,
        };
        all_agree.then_some(agrees)
    }

    /// Records the end of the second vote.
    ///
    /// Returns this worker's third vote, which is true if no worker is known to have resumed in
    /// this attempt; `None` if the attempt is over.
    pub fn end_second_vote(&mut self, all_agree: bool) -> Option<bool> {
        let agrees = self.last_resumed < self.number;
        self.phase = match all_agree {
            true => VotePhase::ThirdVote { agrees },
            false => VotePhase::Over,
        };
        all_agree.then_some(agrees)
    }

    /// Records the end of the third vote.
    pub fn end_third_vote(&mut self, all_agree: bool) {
        self.phase = if all_agree {
            VotePhase::Agreed
        } else {
            VotePhase::Over
        };
    }

    /// True if a worker that stands still may resume after a long wait.
    ///
    /// The only such time is the second vote.
    pub fn may_resume(&self) -> bool {
        matches!(self.phase, VotePhase::SecondVote { .. })
    }

    /// Ends the attempt after the cut was taken or postponed.
    pub fn end(&mut self) {
        self.phase = VotePhase::Over;
    }

    /// Records that this worker resumes, to enter an uninterruptible call or after a long wait.
    ///
    /// Returns true if the other workers must be notified.
    pub fn resume(&mut self) -> bool {
        self.is_under_way() && self.record_resumption(self.number)
    }

    /// Records that a worker has resumed in an attempt.
    ///
    /// Returns true if the other workers must be notified.
    pub fn record_resumption(&mut self, attempt: u64) -> bool {
        let is_news = attempt > self.last_resumed;
        self.last_resumed = self.last_resumed.max(attempt);
        is_news
    }

    /// Returns the permitted action of this worker.
    pub fn permitted_action(&self) -> CallAction {
        match self.phase {
            VotePhase::Agreed => CallAction::Cut,
            // A resumption in a later attempt shows that the present attempt is over. This worker
            // stands still until it receives the end of the vote.
            VotePhase::SecondVote { agrees: true } | VotePhase::ThirdVote { agrees: true }
                if self.last_resumed != self.number =>
            {
                CallAction::Stop
            }
            _ => CallAction::Resume,
        }
    }

    /// True if a vote will probably end soon, since all polling workers may have voted.
    pub fn is_vote_end_near(&self) -> bool {
        match self.phase {
            VotePhase::FirstVote => self.last_resumed < self.number,
            VotePhase::SecondVote { .. } | VotePhase::ThirdVote { .. } => true,
            VotePhase::Over | VotePhase::Agreed => false,
        }
    }
}
