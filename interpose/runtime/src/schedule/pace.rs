//! How long intervals are.
//!
//! With `UNDERSTUDY_INTERVAL=auto` that depends on what checkpoints cost. All workers must go by the same interval, since the distance
//! between their decisions follows from it; so the cost that counts is the maximum, which comes with the vote: everybody gets it at the
//! same candidate. After a recovery nothing is agreed on until the first vote, as an understudy knows of nothing.

use crate::{events, told};
use ckptd::advice;
use ckptd::events::Kind;
use ckptd::settings::Interval;
use std::time::Duration;

/// Until anything has been measured.
const FIRST: Duration = Duration::from_secs(10);

/// What is known about the cost of checkpoints.
#[derive(Debug)]
pub struct Pace {
    /// What one costs in this process; the last one counts as much as all before it.
    own: Duration,
    /// What follows from the maximum over all workers.
    agreed: Option<Duration>,
    /// What the event file has.
    told: Duration,
}

impl Pace {
    /// Nothing.
    pub const START: Pace = Pace {
        own: Duration::ZERO,
        agreed: None,
        told: Duration::ZERO,
    };

    /// What survivors still know. (An understudy knows nothing.)
    pub fn after_recovery(&self) -> Pace {
        Pace {
            own: self.own,
            ..Pace::START
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

    /// What a checkpoint costs here, for the vote.
    pub fn cost_ns(&self) -> i64 {
        self.own.as_nanos() as i64
    }

    /// Takes the maximum that all workers have got. Returns the interval in force.
    pub fn agree(&mut self, cost_ns: i64) -> Duration {
        if told::config().interval == Interval::Auto && cost_ns > 0 {
            let cost = Duration::from_nanos(cost_ns as u64);
            let interval = advice::interval(cost, told::config().mtbf);
            self.agreed = Some(interval);
            self.tell(cost, interval);
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
    fn tell(&mut self, cost: Duration, interval: Duration) {
        if interval.abs_diff(self.told) > self.told / 10 {
            self.told = interval;
            events::emit(Kind::Interval {
                cost_ns: cost.as_nanos() as u64,
                interval_ns: interval.as_nanos() as u64,
            });
        }
    }
}
