//! How long intervals are.
//!
//! With `UNDERSTUDY_INTERVAL=auto` that depends on what checkpoints cost, and on how often the job fails. All workers must go by the same
//! interval, since the distance between their decisions follows from it; so the cost and the rate that count are the maximum, which comes
//! with the vote: everybody gets it at the same candidate. After a recovery nothing is agreed on until the first vote. What is believed about
//! failures outlives it, and newcomers are told.

use crate::sys::{self, quietly};
use crate::{events, renewal, told};
use std::time::{Duration, Instant};
use understudy_formats::advice;
use understudy_formats::events::Kind;
use understudy_formats::rate::FailureRate;
use understudy_formats::warning::{self, News, Watch};
use understudy_settings::Interval;

/// Until anything has been measured.
const FIRST: Duration = Duration::from_secs(10);
/// How often a warning is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// File systems give times of writing that are early by up to a tick of the kernel's clock.
const TICK: Duration = Duration::from_millis(10);
/// A rate of one failure a second, as votes have it.
const PER_SECOND: f64 = 1e15;

/// What a vote has of it: what a checkpoint costs, in nanoseconds, and failures in [`PER_SECOND`] seconds. The greatest count.
pub type Terms = [i64; 2];

/// What is known about failures.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Failures {
    rate: FailureRate,
    /// What somebody has said that is to be expected; `None`: what the setting says.
    expected: Option<Duration>,
}

impl Failures {
    const UNKNOWN: Failures = Failures {
        rate: FailureRate::UNKNOWN,
        expected: None,
    };

    fn expected(&self) -> Duration {
        self.expected.unwrap_or(told::config().mtbf)
    }

    fn mtbf(&self) -> Duration {
        self.rate.mtbf(self.expected())
    }
}

/// What is known about the cost of checkpoints, and about failures.
#[derive(Debug)]
pub struct Pace {
    /// What one costs in this process; the last one counts as much as all before it.
    own: Duration,
    failures: Failures,
    /// Deaths of idle spares that have been counted.
    spares: u32,
    /// Up to when time was counted for that.
    counted: Option<Instant>,
    /// Where warnings come from, and when it was looked there last.
    warnings: Watch,
    looked: Option<Instant>,
    /// A cut after this moment is wanted.
    wanted: Option<Instant>,
    /// What follows from the maximum over all workers.
    agreed: Option<Duration>,
    /// What the event file has.
    told: Duration,
}

impl Pace {
    pub const START: Pace = Pace {
        own: Duration::ZERO,
        failures: Failures::UNKNOWN,
        spares: 0,
        counted: None,
        warnings: Watch::NEW,
        looked: None,
        wanted: None,
        agreed: None,
        told: Duration::ZERO,
    };

    /// Nothing is agreed on any more.
    pub fn after_recovery(self) -> Pace {
        Pace {
            agreed: None,
            told: Duration::ZERO,
            // Those that have died with a worker were one failure.
            spares: renewal::spare_deaths(),
            ..self
        }
    }

    /// A checkpoint has kept the program for so long.
    pub fn measure(&mut self, cost: Duration) {
        self.own = if self.own.is_zero() {
            cost
        } else {
            (self.own + cost) / 2
        };
    }

    /// What is known about failures, up to this moment; a newcomer is told.
    pub fn failures(&mut self) -> &mut Failures {
        let now = Instant::now();
        let before = self.counted.replace(now).unwrap_or(now);
        quietly(|| self.failures.rate.pass(now - before));
        &mut self.failures
    }

    /// What others know about failures.
    pub fn learn(&mut self, failures: Failures) {
        (self.failures, self.counted) = (failures, Some(Instant::now()));
    }

    /// The job has been set back by a failure that may come again.
    pub fn fail(&mut self) {
        let failures = self.failures();
        let expected = failures.expected();
        quietly(|| failures.rate.fail(expected));
    }

    /// Whether somebody outside wants a checkpoint that the last cut was not. What else was said counts from here on.
    ///
    /// Workers look at different moments, and each at the same words: one cut is enough for all.
    pub fn is_warned(&mut self, last: Option<Instant>) -> bool {
        let now = Instant::now();
        if self.looked.is_none_or(|looked| now - looked >= LOOK) {
            self.look(now);
        }
        self.wanted
            .is_some_and(|wanted| last.is_none_or(|last| last < wanted))
    }

    /// Looks for a warning.
    fn look(&mut self, now: Instant) {
        let before = self.looked.replace(now);
        let file = told::config().warnings.clone();
        let file = file.unwrap_or_else(|| warning::file_in(renewal::directory()));
        match self.warnings.look(&file) {
            Ok(Some(News { warning, age })) => {
                log::info!("a warning: {warning:?}");
                if let Some(mtbf) = warning.mtbf {
                    self.learn(Failures {
                        expected: Some(mtbf),
                        ..Failures::UNKNOWN
                    });
                }
                if warning.checkpoint {
                    // Where it cannot be that old, the clock of a file server differs.
                    let is_believed = before.is_none_or(|before| age <= now - before + TICK);
                    let age = if is_believed {
                        age.saturating_sub(TICK)
                    } else {
                        Duration::ZERO
                    };
                    self.wanted = now.checked_sub(age);
                }
            }
            Ok(None) => (),
            Err(why) => sys::say(format_args!(
                "the warning in {} is not heeded: {why}",
                file.display()
            )),
        }
    }

    /// This process's, for the vote.
    pub fn terms(&mut self) -> Terms {
        let died = renewal::spare_deaths();
        if std::mem::replace(&mut self.spares, died) != died {
            self.fail();
        }
        let failures = self.failures();
        let rate = quietly(|| (PER_SECOND / failures.mtbf().as_secs_f64()) as i64);
        [self.own.as_nanos() as i64, rate]
    }

    /// Takes the maximum that all workers have got. Returns the interval in force.
    pub fn agree(&mut self, [cost_ns, rate]: Terms) -> Duration {
        if told::config().interval == Interval::Auto && cost_ns > 0 && rate > 0 {
            let cost = Duration::from_nanos(cost_ns as u64);
            let (mtbf, interval) = quietly(|| {
                let mtbf = Duration::from_secs_f64(PER_SECOND / rate as f64);
                (mtbf, advice::interval(cost, mtbf))
            });
            self.agreed = Some(interval);
            self.tell(cost, mtbf, interval);
        }
        self.interval()
    }

    /// The interval in force.
    pub fn interval(&self) -> Duration {
        match told::config().interval {
            Interval::Time(interval) => interval,
            Interval::Auto => self.agreed.unwrap_or(FIRST),
            Interval::Calls(_) | Interval::Off => Duration::MAX,
        }
    }

    /// Records a change that matters.
    fn tell(&mut self, cost: Duration, mtbf: Duration, interval: Duration) {
        if interval.abs_diff(self.told) > self.told / 10 {
            self.told = interval;
            events::emit(Kind::Interval {
                cost_ns: cost.as_nanos() as u64,
                mtbf_ns: mtbf.as_nanos() as u64,
                interval_ns: interval.as_nanos() as u64,
            });
        }
    }
}
