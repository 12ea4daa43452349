//! Intervals between checkpoints.
//!
//! With `UNDERSTUDY_INTERVAL=auto` the interval depends on the cost of checkpoints, and on the rate
//! of the job's failures. All workers must use an equal interval, because it determines the
//! distance between their decisions. So they use the maxima of the cost and of the rate, which are
//! part of the vote: every worker receives them at one cut point. After a recovery no interval is
//! agreed on until the first vote. The estimate of failures survives a recovery, and replacements
//! receive the estimate.
//!
//! The caller passes the time, the settings, the deaths of spares and the warnings. The module
//! computes with floating-point numbers, so the caller masks the floating-point exceptions that the
//! program has enabled.

use std::time::{Duration, Instant};
use understudy_formats::checkpoint_interval;
use understudy_formats::failure_rate::FailureRate;
use understudy_formats::warning::WarningNews;
use understudy_settings::Interval;

/// Interval until a cost has been measured.
const INITIAL_INTERVAL: Duration = Duration::from_secs(10);
/// Error of modification times, which may be early by a tick of the kernel's clock.
const FILE_TIME_ERROR: Duration = Duration::from_millis(10);
/// Period in seconds; the rate in a vote is the number of failures per period.
const VOTE_SECONDS: f64 = 1e15;

/// A worker's terms for the vote, which computes their maxima.
///
/// The terms are the cost of a checkpoint, in nanoseconds, and the failures in `VOTE_SECONDS`.
pub type Terms = [i64; 2];

/// Estimate of failures.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Failures {
    rate: FailureRate,
    /// Mean time between failures of a warning; `None` stands for that of the setting.
    expected: Option<Duration>,
}

impl Failures {
    const UNKNOWN: Failures = Failures {
        rate: FailureRate::UNKNOWN,
        expected: None,
    };

    /// Returns the expected mean time between failures: that of a warning, or the setting's.
    fn expected(&self, setting: Duration) -> Duration {
        self.expected.unwrap_or(setting)
    }
}

/// Interval that differs from the last reported one, with its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalChange {
    pub cost: Duration,
    /// Mean time between failures.
    pub mtbf: Duration,
    pub interval: Duration,
}

/// Cost of checkpoints and rate of failures, and the interval that follows from them.
#[derive(Debug)]
pub struct CheckpointPace {
    /// Cost in this process; the last checkpoint counts as much as all earlier ones together.
    own_cost: Duration,
    failures: Failures,
    /// Number of deaths of idle spares that have been counted.
    spares: u32,
    /// Time up to which the rate of failures has been updated.
    counted: Option<Instant>,
    /// Time of the last warning that requests a checkpoint.
    requested_after: Option<Instant>,
    /// Interval that follows from the maxima over all workers.
    agreed: Option<Duration>,
    /// Interval that was reported last.
    reported: Duration,
}

impl CheckpointPace {
    /// The state at the start of the process.
    pub const START: CheckpointPace = CheckpointPace {
        own_cost: Duration::ZERO,
        failures: Failures::UNKNOWN,
        spares: 0,
        counted: None,
        requested_after: None,
        agreed: None,
        reported: Duration::ZERO,
    };

    /// Discards the agreed interval, after a recovery.
    ///
    /// The number of `spare_deaths` is adopted without a new failure: spares that died together
    /// with a worker were one failure with the worker.
    pub fn after_recovery(self, spare_deaths: u32) -> CheckpointPace {
        CheckpointPace {
            agreed: None,
            reported: Duration::ZERO,
            spares: spare_deaths,
            ..self
        }
    }

    /// Records the time for which a checkpoint has paused the program.
    pub fn measure(&mut self, cost: Duration) {
        self.own_cost = if self.own_cost.is_zero() {
            cost
        } else {
            (self.own_cost + cost) / 2
        };
    }

    /// Returns the estimate of failures up to this moment, which replacements receive.
    pub fn failures(&mut self, now: Instant) -> &mut Failures {
        let before = self.counted.replace(now).unwrap_or(now);
        self.failures.rate.record_time(now - before);
        &mut self.failures
    }

    /// Replaces the estimate of failures by that of other processes.
    pub fn adopt(&mut self, failures: Failures, now: Instant) {
        (self.failures, self.counted) = (failures, Some(now));
    }

    /// Records a failure that has set the job back and may recur.
    ///
    /// `mtbf` is the mean time between failures of the setting.
    pub fn fail(&mut self, now: Instant, mtbf: Duration) {
        let failures = self.failures(now);
        let expected = failures.expected(mtbf);
        failures.rate.record_failure(expected);
    }

    /// Records a warning that was found now.
    ///
    /// `before` is the time of the last poll, which did not find the warning. If the warning's age
    /// is longer than the time since that poll, the clock of a file server differs, and the warning
    /// counts as written now.
    pub fn warn(&mut self, news: &WarningNews, before: Option<Instant>, now: Instant) {
        if let Some(mtbf) = news.warning.mtbf {
            let failures = Failures {
                expected: Some(mtbf),
                ..Failures::UNKNOWN
            };
            self.adopt(failures, now);
        }
        if news.warning.checkpoint {
            let is_believed =
                before.is_none_or(|before| news.age <= now - before + FILE_TIME_ERROR);
            let age = if is_believed {
                news.age.saturating_sub(FILE_TIME_ERROR)
            } else {
                Duration::ZERO
            };
            self.requested_after = now.checked_sub(age);
        }
    }

    /// True if a warning requests a checkpoint and no cut has followed.
    ///
    /// `last` is the time of the last cut.
    pub fn is_warned(&self, last: Option<Instant>) -> bool {
        self.requested_after
            .is_some_and(|wanted| last.is_none_or(|last| last < wanted))
    }

    /// Returns this process's terms for the vote.
    ///
    /// A change of the number of `spare_deaths` is one failure. `mtbf` is the mean time between
    /// failures of the setting.
    pub fn terms(&mut self, spare_deaths: u32, now: Instant, mtbf: Duration) -> Terms {
        if std::mem::replace(&mut self.spares, spare_deaths) != spare_deaths {
            self.fail(now, mtbf);
        }
        let failures = self.failures(now);
        let mtbf = failures.rate.mtbf(failures.expected(mtbf));
        let rate = (VOTE_SECONDS / mtbf.as_secs_f64()) as i64;
        [self.own_cost.as_nanos() as i64, rate]
    }

    /// Adopts the maxima over all workers; returns a significant change of the interval.
    pub fn agree(&mut self, [cost_ns, rate]: Terms, setting: Interval) -> Option<IntervalChange> {
        if setting != Interval::Auto || cost_ns <= 0 || rate <= 0 {
            return None;
        }
        let cost = Duration::from_nanos(cost_ns as u64);
        let mtbf = Duration::from_secs_f64(VOTE_SECONDS / rate as f64);
        let interval = checkpoint_interval::job_interval(cost, mtbf);
        self.agreed = Some(interval);
        if interval.abs_diff(self.reported) <= self.reported / 10 {
            return None;
        }
        self.reported = interval;
        Some(IntervalChange {
            cost,
            mtbf,
            interval,
        })
    }

    /// Returns the interval in force.
    pub fn interval(&self, setting: Interval) -> Duration {
        match setting {
            Interval::Time(interval) => interval,
            Interval::Auto => self.agreed.unwrap_or(INITIAL_INTERVAL),
            Interval::Calls(_) | Interval::Off => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckpointPace, FILE_TIME_ERROR, INITIAL_INTERVAL};
    use std::time::{Duration, Instant};
    use understudy_formats::warning::{FailureWarning, WarningNews};
    use understudy_settings::Interval;

    const MTBF: Duration = Duration::from_secs(86_400);
    const MINUTE: Duration = Duration::from_secs(60);

    fn warning(mtbf: Option<Duration>, checkpoint: bool, age: Duration) -> WarningNews {
        WarningNews {
            warning: FailureWarning { mtbf, checkpoint },
            age,
        }
    }

    #[test]
    fn the_interval_is_the_one_agreed_on_until_a_recovery() {
        let (mut pace, now) = (CheckpointPace::START, Instant::now());
        pace.measure(Duration::from_millis(30));
        pace.measure(Duration::from_millis(10));
        let terms = pace.terms(0, now, MTBF);
        assert_eq!(terms[0], 20_000_000);
        assert_eq!(pace.interval(Interval::Auto), INITIAL_INTERVAL);
        let change = pace.agree(terms, Interval::Auto).expect("a first interval");
        assert_eq!(change.interval, pace.interval(Interval::Auto));
        assert!(change.mtbf.abs_diff(MTBF) < Duration::from_secs(1));
        assert_eq!(pace.agree(terms, Interval::Auto), None, "reported already");
        let pace = pace.after_recovery(0);
        assert_eq!(pace.interval(Interval::Auto), INITIAL_INTERVAL);
    }

    #[test]
    fn nothing_is_agreed_on_where_the_user_has_set_the_interval() {
        let mut pace = CheckpointPace::START;
        let setting = Interval::Time(MINUTE);
        assert_eq!(pace.agree([1, 1], setting), None);
        assert_eq!(pace.interval(setting), MINUTE);
        assert_eq!(pace.interval(Interval::Calls(3)), Duration::MAX);
        assert_eq!(pace.agree([0, 1], Interval::Auto), None, "nothing measured");
    }

    #[test]
    fn deaths_of_spares_between_two_votes_are_one_failure() {
        let (mut one, mut two, now) =
            (CheckpointPace::START, CheckpointPace::START, Instant::now());
        let before = one.terms(0, now, MTBF)[1];
        let after = one.terms(2, now + MINUTE, MTBF)[1];
        assert!(after > before);
        two.terms(0, now, MTBF);
        assert_eq!(two.terms(1, now + MINUTE, MTBF)[1], after);
        let mut one = one.after_recovery(3);
        let later = one.terms(3, now + MINUTE, MTBF)[1];
        assert_eq!(later, after, "they died with a worker");
    }

    #[test]
    fn a_warning_wants_one_checkpoint_after_it_was_written() {
        let (mut pace, now) = (CheckpointPace::START, Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert!(!pace.is_warned(None));
        let news = warning(None, true, Duration::from_secs(1));
        pace.warn(&news, Some(at(8)), at(10));
        assert!(pace.is_warned(None) && pace.is_warned(Some(at(9))));
        assert!(!pace.is_warned(Some(at(9) + 2 * FILE_TIME_ERROR)));
        // Written before the last poll, by the clock of another machine.
        pace.warn(&news, Some(at(20) - FILE_TIME_ERROR), at(20));
        assert!(pace.is_warned(Some(at(19))) && !pace.is_warned(Some(at(20))));
    }

    #[test]
    fn a_warning_replaces_the_belief_about_failures() {
        let (mut pace, now) = (CheckpointPace::START, Instant::now());
        let before = pace.terms(0, now, MTBF)[1];
        pace.warn(&warning(Some(MINUTE), false, Duration::ZERO), None, now);
        assert!(pace.terms(0, now, MTBF)[1] > 1000 * before);
        assert!(!pace.is_warned(None));
    }
}
