//! Votes of an agreement: their numbers, and the decision when the next attempt begins.

use super::{Agreement, CallAction};
use crate::max_reduction::Numbers;
use crate::pace::Terms;
use std::time::Duration;

/// Maximum number of attempts in direct succession.
///
/// The next attempt follows directly if the last one has ended only because a worker resumed.
const MAX_ATTEMPTS: u32 = 6;
/// Delay of the next attempt after a worker has given up.
///
/// The unit is the stop time after which the worker has given up.
const PAUSE_FACTOR: u32 = 10;
/// Limit up to which the stop time of a worker is doubled.
const MAX_STOP_TIME: Duration = Duration::from_secs(64);

/// Objection of a worker that knows of a resumption in this attempt.
///
/// The first vote does not contain this objection.
const HAS_RESUMED: i64 = 1;
/// Objection of a worker that must not be cut here; hides [`HAS_RESUMED`] of other workers.
const OBJECTS: i64 = 2;

/// Vote of an attempt, described by the statement that a unanimous vote proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteKind {
    /// All workers poll at each call.
    First,
    /// All workers have stopped.
    Second,
    /// All workers are still stopped.
    Third,
}

/// Next action of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteAction {
    /// Start this vote with these numbers, of which the maxima are computed.
    Start(VoteKind, Numbers),
    /// The cut is agreed, with these terms of the pace.
    Cut(Terms),
    /// The attempt is over; begin another one at once.
    Retry,
    /// The attempt is over; another one may begin after the pause.
    GiveUp { pause: Duration },
}

/// State of a worker when a vote begins or ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerState {
    /// True if this worker objects to a cut outside of collective cut points.
    pub objects: bool,
    /// Number of collective cut points ([`crate::candidate_schedule`]) that the worker has passed.
    pub candidates: u64,
}

/// Attempts of one worker to agree on a cut, with their votes.
#[derive(Clone, Copy, Debug)]
pub struct AgreementVotes {
    pub agreement: Agreement,
    kind: VoteKind,
    /// Terms of the pace, from the first vote.
    terms: Terms,
    /// Number of attempts in direct succession.
    attempts: u32,
    /// Time after which this worker, once stopped, gives up; doubled whenever it has given up.
    stop_time: Duration,
    /// True if this worker has given up in this attempt.
    has_given_up: bool,
}

impl AgreementVotes {
    /// State before the first attempt.
    pub const NONE: AgreementVotes = AgreementVotes {
        agreement: Agreement::NONE,
        kind: VoteKind::First,
        terms: [0; 2],
        attempts: 0,
        stop_time: Duration::from_secs(1),
        has_given_up: false,
    };

    /// Begins an attempt; `terms` are those of this worker.
    pub fn begin(&mut self, state: WorkerState, terms: Terms) -> VoteAction {
        self.agreement.begin();
        self.kind = VoteKind::First;
        let [cost, rate] = terms;
        VoteAction::Start(self.kind, [i64::from(state.objects), cost, 0, rate])
    }

    /// Ends the present vote with the maxima over all workers.
    ///
    /// `min_stop_time` is the least time for which a worker stops.
    pub fn end_vote(
        &mut self,
        maxima: Numbers,
        state: WorkerState,
        min_stop_time: Duration,
    ) -> VoteAction {
        // In the first vote the second number is a cost, and the fourth a rate.
        let [objection, most, inverted_least, rate] = maxima;
        let (agrees, next) = match self.kind {
            VoteKind::First => {
                self.terms = [most, rate];
                let agrees = self
                    .agreement
                    .end_first_vote(objection == 0, !state.objects);
                (agrees, VoteKind::Second)
            }
            // If some workers have passed more collective cut points than others, messages of a
            // collective are in flight.
            VoteKind::Second => {
                let all_agree = objection == 0 && most == -inverted_least;
                (self.agreement.end_second_vote(all_agree), VoteKind::Third)
            }
            VoteKind::Third => {
                self.agreement.end_third_vote(objection == 0);
                (None, VoteKind::Third)
            }
        };
        let only_resumed = self.kind != VoteKind::First && objection == HAS_RESUMED;
        if let Some(agrees) = agrees {
            self.kind = next;
            return VoteAction::Start(next, own_numbers(state, agrees));
        }
        if self.agreement.permitted_action() == CallAction::Cut {
            return VoteAction::Cut(self.terms);
        }
        self.end_attempt(only_resumed, min_stop_time)
    }

    fn end_attempt(&mut self, only_resumed: bool, min_stop_time: Duration) -> VoteAction {
        self.attempts += 1;
        let retries = only_resumed && self.attempts < MAX_ATTEMPTS;
        if !retries {
            self.attempts = 0;
        }
        if std::mem::take(&mut self.has_given_up) {
            let stopped = self.stop_time.max(min_stop_time);
            self.stop_time = (stopped * 2).min(MAX_STOP_TIME);
            return VoteAction::GiveUp {
                pause: stopped * PAUSE_FACTOR,
            };
        }
        match retries {
            true => VoteAction::Retry,
            false => VoteAction::GiveUp {
                pause: Duration::ZERO,
            },
        }
    }

    /// Returns true if this worker gives up, as it has been stopped for long.
    ///
    /// Other workers may wait for this worker outside of MPI.
    pub fn give_up_after(&mut self, stopped: Duration, min_stop_time: Duration) -> bool {
        let gives_up = self.agreement.may_resume() && stopped >= self.stop_time.max(min_stop_time);
        self.has_given_up |= gives_up;
        gives_up
    }

    /// Ends the attempt after the cut was taken or postponed.
    pub fn end(&mut self) {
        self.agreement.end();
        self.attempts = 0;
    }
}

/// Returns the numbers of the second and the third vote.
fn own_numbers(state: WorkerState, agrees: bool) -> Numbers {
    let objection = match (state.objects, agrees) {
        (true, _) => OBJECTS,
        (false, false) => HAS_RESUMED,
        (false, true) => 0,
    };
    let candidates = state.candidates as i64;
    [objection, candidates, -candidates, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const QUIET: WorkerState = WorkerState {
        objects: false,
        candidates: 5,
    };

    /// Runs an attempt that ends with this objection in its second vote.
    fn attempt(votes: &mut AgreementVotes, objection: i64) -> VoteAction {
        votes.begin(QUIET, [7, 9]);
        let second = votes.end_vote([0, 7, 0, 9], QUIET, SECOND);
        assert_eq!(second, VoteAction::Start(VoteKind::Second, [0, 5, -5, 0]));
        votes.end_vote([objection, 5, -5, 0], QUIET, SECOND)
    }

    const NO_PAUSE: VoteAction = VoteAction::GiveUp {
        pause: Duration::ZERO,
    };

    #[test]
    fn a_cut_has_the_terms_of_the_first_vote() {
        let mut votes = AgreementVotes::NONE;
        let third = attempt(&mut votes, 0);
        assert_eq!(third, VoteAction::Start(VoteKind::Third, [0, 5, -5, 0]));
        let cut = votes.end_vote([0, 5, -5, 0], QUIET, SECOND);
        assert_eq!(cut, VoteAction::Cut([7, 9]));
    }

    #[test]
    fn different_numbers_of_candidates_prevent_a_cut() {
        let mut votes = AgreementVotes::NONE;
        votes.begin(QUIET, [0; 2]);
        votes.end_vote([0; 4], QUIET, SECOND);
        assert_eq!(votes.end_vote([0, 6, -5, 0], QUIET, SECOND), NO_PAUSE);
    }

    #[test]
    fn attempts_follow_at_once_only_after_resumptions_and_only_a_few_times() {
        let mut votes = AgreementVotes::NONE;
        assert_eq!(attempt(&mut votes, OBJECTS), NO_PAUSE);
        for _ in 1..MAX_ATTEMPTS {
            assert_eq!(attempt(&mut votes, HAS_RESUMED), VoteAction::Retry);
        }
        assert_eq!(attempt(&mut votes, HAS_RESUMED), NO_PAUSE);
        assert_eq!(attempt(&mut votes, HAS_RESUMED), VoteAction::Retry);
        votes.end();
        for _ in 1..MAX_ATTEMPTS {
            assert_eq!(attempt(&mut votes, HAS_RESUMED), VoteAction::Retry);
        }
    }

    #[test]
    fn an_objection_hides_a_resumption() {
        let objecting = WorkerState {
            objects: true,
            ..QUIET
        };
        assert_eq!(own_numbers(objecting, false)[0], OBJECTS);
        assert_eq!(own_numbers(QUIET, false)[0], HAS_RESUMED);
    }

    #[test]
    fn a_worker_that_gives_up_pauses_once_and_stops_longer_later() {
        let mut votes = AgreementVotes::NONE;
        votes.begin(QUIET, [0; 2]);
        assert!(!votes.give_up_after(SECOND, SECOND));
        votes.end_vote([0; 4], QUIET, SECOND);
        assert!(votes.give_up_after(SECOND, SECOND));
        let ends = votes.end_vote([HAS_RESUMED, 5, -5, 0], QUIET, SECOND);
        let pause = SECOND * PAUSE_FACTOR;
        assert_eq!(ends, VoteAction::GiveUp { pause });
        assert_eq!(attempt(&mut votes, HAS_RESUMED), VoteAction::Retry);
        votes.begin(QUIET, [0; 2]);
        votes.end_vote([0; 4], QUIET, SECOND);
        assert!(!votes.give_up_after(SECOND, SECOND));
        assert!(votes.give_up_after(2 * SECOND, SECOND));
    }
}
