//! Votes of an agreement: their numbers, and the attempts that follow each other.

use super::{Agreement, CallAction};
use crate::max_reduction::Numbers;
use crate::pace::Terms;
use std::time::Duration;

/// Number of attempts in direct succession, if the only obstacle was that a worker resumed.
const MAX_ATTEMPTS: u32 = 6;
/// Delay of the next attempt after a worker has given up.
///
/// The unit is the time for which the worker was stopped.
const PAUSE_FACTOR: u32 = 10;
/// Longest time for which a worker stops before it gives up.
const MAX_STOP_TIME: Duration = Duration::from_secs(64);

/// Vote of a worker that has resumed, in the second and the third vote.
const HAS_RESUMED: i64 = 1;
/// Vote for another objection.
const OBJECTS: i64 = 2;

/// Vote of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteKind {
    /// All workers poll at each call.
    First,
    /// All have stopped.
    Second,
    /// All are still stopped.
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
    /// True if this worker objects to a cut outside of candidates.
    pub objects: bool,
    /// Number of candidates that it has passed.
    pub candidates: u64,
}

/// Agreements of one worker, with the votes.
#[derive(Clone, Copy, Debug)]
pub struct AgreementVotes {
    pub agreement: Agreement,
    kind: VoteKind,
    /// Terms of the pace, from the first vote.
    terms: Terms,
    /// Number of attempts in direct succession.
    attempts: u32,
    /// Longest time for which this worker stops; it doubles whenever the worker has given up.
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
            // If some workers have passed more candidates than others, messages of a collective are
            // in flight.
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
    /// Other workers may wait for it outside of MPI.
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
