//! Schedule of cuts at candidates, and the votes between candidates.
//!
//! A candidate is a collective cut point: a call that all workers pass in one order, such as a
//! collective over all workers. With an interval in calls, every n-th candidate is a cut. With an
//! interval in time, the workers vote: a vote starts at one decision and is evaluated at the next,
//! a number of candidates later that is equal for all workers (the *stride*). So all workers
//! evaluate the same vote at the same candidate, and rarely wait for its result.

use crate::max_reduction::Numbers;
use crate::pace::Terms;
use std::time::Duration;
use understudy_settings::Interval;

/// Maximum stride.
///
/// After a burst of quick candidates, such as at a program's start, slow candidates may follow. The
/// next cut should not wait for many slow candidates.
const MAX_STRIDE: u64 = 32;
/// Maximum stride while a worker records a phase.
///
/// The phase should end soon after the worker requests its end.
const PHASE_STRIDE: u64 = 2;
/// Number of votes in an interval: enough for precision, and few enough to cost little.
const VOTES_PER_INTERVAL: u32 = 50;

// Each worker votes with the sum of its flags, and all workers get the greatest of these sums. So a
// worker with a higher flag hides the lower flags of other workers.
/// Flag of a worker that records a phase.
const IS_RECORDING: i64 = 1;
/// Flag of a worker in whose view a cut is due.
const IS_DUE: i64 = 2;
/// Flag of a worker whose program inhibits cuts.
const INHIBITS: i64 = 4;

/// Position of the program among the candidates, and the next decision; saved with a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Schedule {
    /// Number of candidates passed since MPI_Init.
    pub candidates: u64,
    /// Candidate of the next decision.
    pub next: u64,
    /// Number of candidates from one decision to the next.
    pub stride: u64,
    /// True if a cut was postponed to the next candidate.
    pub is_postponed: bool,
    /// True if the cut is at a candidate.
    pub at_candidate: bool,
}

/// Decision at a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Continue,
    /// Take a cut here.
    Take,
    /// Evaluate the vote under way, if there is one; then start the next one.
    ///
    /// A cut that `is_overdue` is taken even if the vote objects.
    Vote {
        is_overdue: bool,
    },
}

/// Vote of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateVote {
    /// True if the program inhibits cuts.
    pub inhibits: bool,
    /// True if a cut is due in the view of this worker.
    pub is_due: bool,
    /// True if this worker records a phase.
    pub is_recording: bool,
    /// Time from one candidate to the next.
    pub per_candidate: Duration,
    /// Cost of checkpoints and rate of failures.
    pub terms: Terms,
}

impl CandidateVote {
    /// Returns the numbers of the vote, of which the maxima are computed.
    pub fn numbers(&self) -> Numbers {
        let flags = [
            (self.inhibits, INHIBITS),
            (self.is_due, IS_DUE),
            (self.is_recording, IS_RECORDING),
        ];
        let set = flags.iter().filter(|(is_set, _)| *is_set);
        let [cost, rate] = self.terms;
        [
            set.map(|(_, flag)| flag).sum(),
            self.per_candidate.as_nanos() as i64,
            cost,
            rate,
        ]
    }
}

/// Maxima of the votes of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JointCandidateVote {
    flags: i64,
    per_candidate_ns: i64,
    pub terms: Terms,
}

impl From<Numbers> for JointCandidateVote {
    fn from([flags, per_candidate_ns, cost, rate]: Numbers) -> JointCandidateVote {
        JointCandidateVote {
            flags,
            per_candidate_ns,
            terms: [cost, rate],
        }
    }
}

impl Schedule {
    /// Schedule at the start of the process: the end of MPI_Init is a cut.
    pub const START: Schedule = Schedule {
        candidates: 0,
        next: 1,
        stride: 1,
        is_postponed: false,
        at_candidate: true,
    };

    /// True if the present candidate is that of the next decision.
    pub fn is_decision(&self) -> bool {
        self.candidates >= self.next
    }

    /// Postpones a cut to the next candidate.
    pub fn postpone(&mut self) {
        self.next = self.candidates + 1;
        self.is_postponed = true;
    }

    /// Decides at a candidate; [`Schedule::is_decision`] must be true.
    pub fn decide(&mut self, interval: Interval) -> Decision {
        let is_overdue = std::mem::take(&mut self.is_postponed);
        let takes = match interval {
            Interval::Off => {
                self.next = u64::MAX;
                is_overdue
            }
            Interval::Calls(calls) => {
                self.next = (self.candidates / calls + 1) * calls;
                is_overdue || self.candidates.is_multiple_of(calls)
            }
            Interval::Time(_) | Interval::Auto => return Decision::Vote { is_overdue },
        };
        match takes {
            true => Decision::Take,
            false => Decision::Continue,
        }
    }

    /// Evaluates a vote; returns true if a cut is due and not inhibited.
    ///
    /// `interval` is the time between cuts that follows from the vote. The stride follows from the
    /// slowest worker's time per candidate.
    pub fn end_vote(&mut self, vote: JointCandidateVote, interval: Duration) -> bool {
        let between_votes = (interval / VOTES_PER_INTERVAL).as_nanos() as i64;
        let stride = (between_votes / vote.per_candidate_ns.max(1)).max(1) as u64;
        let most = match vote.flags & IS_RECORDING {
            0 => MAX_STRIDE,
            _ => PHASE_STRIDE,
        };
        self.stride = stride.min(2 * self.stride).min(most);
        vote.flags & IS_DUE != 0 && vote.flags & INHIBITS == 0
    }

    /// Schedules the decision that evaluates a vote which starts here.
    pub fn schedule_next(&mut self) {
        self.next = self.candidates + self.stride;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTE: CandidateVote = CandidateVote {
        inhibits: false,
        is_due: false,
        is_recording: false,
        per_candidate: Duration::from_millis(1),
        terms: [0; 2],
    };

    fn joint(votes: &[CandidateVote]) -> JointCandidateVote {
        let numbers = votes.iter().map(CandidateVote::numbers);
        let maxima = numbers.reduce(|all, own| std::array::from_fn(|at| all[at].max(own[at])));
        maxima.expect("a vote").into()
    }

    #[test]
    fn every_nth_candidate_is_a_cut() {
        let mut schedule = Schedule::START;
        let mut cuts = Vec::new();
        for candidate in 1..=10 {
            schedule.candidates = candidate;
            if schedule.is_decision() && schedule.decide(Interval::Calls(3)) == Decision::Take {
                cuts.push(candidate);
            }
            if candidate == 6 {
                schedule.postpone();
            }
        }
        assert_eq!(cuts, [3, 6, 7, 9]);
    }

    #[test]
    fn without_an_interval_only_a_postponed_cut_is_taken() {
        let mut schedule = Schedule::START;
        schedule.candidates = 1;
        assert_eq!(schedule.decide(Interval::Off), Decision::Continue);
        schedule.postpone();
        assert_eq!(schedule.decide(Interval::Off), Decision::Take);
    }

    #[test]
    fn one_worker_requests_a_cut_and_one_prevents_it() {
        let due = CandidateVote {
            is_due: true,
            ..VOTE
        };
        let inhibiting = CandidateVote {
            inhibits: true,
            ..VOTE
        };
        let mut schedule = Schedule::START;
        let mut ends =
            |votes: &[CandidateVote]| schedule.end_vote(joint(votes), Duration::from_secs(1));
        assert!(!ends(&[VOTE, VOTE]));
        assert!(ends(&[VOTE, due]));
        assert!(!ends(&[due, inhibiting]));
    }

    #[test]
    fn the_stride_grows_slowly_and_has_a_limit() {
        let mut schedule = Schedule::START;
        let mut strides = Vec::new();
        for _ in 0..6 {
            schedule.end_vote(joint(&[VOTE]), Duration::from_secs(60));
            strides.push(schedule.stride);
        }
        assert_eq!(strides, [2, 4, 8, 16, 32, 32]);
        let slow = CandidateVote {
            per_candidate: Duration::from_millis(100),
            ..VOTE
        };
        schedule.end_vote(joint(&[VOTE, slow]), Duration::from_secs(60));
        assert_eq!(schedule.stride, 12);
        let recording = CandidateVote {
            is_recording: true,
            ..VOTE
        };
        schedule.end_vote(joint(&[recording]), Duration::from_secs(60));
        assert_eq!(schedule.stride, 2);
    }

    #[test]
    fn a_vote_is_evaluated_one_stride_after_its_start() {
        let interval = Interval::Time(Duration::from_secs(1));
        let mut schedule = Schedule::START;
        (schedule.candidates, schedule.stride) = (10, 4);
        assert_eq!(
            schedule.decide(interval),
            Decision::Vote { is_overdue: false }
        );
        schedule.schedule_next();
        schedule.candidates = 13;
        assert!(!schedule.is_decision());
        schedule.candidates = 14;
        assert!(schedule.is_decision());
    }

    #[test]
    fn a_postponed_cut_is_taken_at_the_next_candidate() {
        let mut schedule = Schedule::START;
        (schedule.candidates, schedule.next) = (10, 20);
        schedule.postpone();
        schedule.candidates = 11;
        assert!(schedule.is_decision());
        for is_overdue in [true, false] {
            assert_eq!(
                schedule.decide(Interval::Auto),
                Decision::Vote { is_overdue }
            );
        }
    }
}
