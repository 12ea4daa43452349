//! Pace of checkpoints in this process, with the clock, settings and warnings of the job.

use crate::sys::{self, quietly};
use crate::{events, renewal, told};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_formats::warning::{self, Watch};
use understudy_policy::pace::{Failures, IntervalChange, Pace, Terms};

/// Time between two polls for a warning.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Pace of checkpoints, and the file with warnings that affect it.
#[derive(Debug)]
pub struct JobPace {
    pace: Pace,
    warnings: Watch,
    /// Time of the last poll for a warning.
    polled: Option<Instant>,
}

impl JobPace {
    /// The state at the start of the process.
    pub const START: JobPace = JobPace {
        pace: Pace::START,
        warnings: Watch::NEW,
        polled: None,
    };

    /// Discards the agreed interval, after a recovery.
    pub fn after_recovery(self) -> JobPace {
        let pace = self.pace.after_recovery(renewal::spare_deaths());
        JobPace { pace, ..self }
    }

    /// Records the time for which a checkpoint has paused the program.
    pub fn measure(&mut self, cost: Duration) {
        self.pace.measure(cost);
    }

    /// Returns the belief about failures up to this moment, for a replacement.
    pub fn failures(&mut self) -> Failures {
        quietly(|| self.pace.failures(Instant::now()).clone())
    }

    /// Replaces the belief about failures by that of other processes.
    pub fn adopt(&mut self, failures: Failures) {
        self.pace.adopt(failures, Instant::now());
    }

    /// Records a failure that has set the job back and may recur.
    pub fn fail(&mut self) {
        quietly(|| self.pace.fail(Instant::now(), told::config().mtbf));
    }

    /// Returns true if a warning requests a checkpoint after the last cut.
    ///
    /// Polls for a warning now and then; its other contents count from this moment. Workers poll at
    /// different moments, and each finds that warning: one cut is enough for all.
    pub fn poll_warning(&mut self, last: Option<Instant>) -> bool {
        let now = Instant::now();
        if self
            .polled
            .is_none_or(|polled| now - polled >= POLL_INTERVAL)
        {
            self.read_warning(now);
        }
        self.pace.is_warned(last)
    }

    fn read_warning(&mut self, now: Instant) {
        let before = self.polled.replace(now);
        let file = told::config().warnings.clone();
        let file = file.unwrap_or_else(|| warning::file_in(renewal::directory()));
        match self.warnings.look(&file) {
            Ok(Some(news)) => {
                log::info!("a warning: {:?}", news.warning);
                self.pace.warn(&news, before, now);
            }
            Ok(None) => (),
            Err(why) => sys::say(message::warning_unusable(file.display(), why)),
        }
    }

    /// Returns this process's terms for the vote.
    pub fn terms(&mut self) -> Terms {
        let deaths = renewal::spare_deaths();
        quietly(|| self.pace.terms(deaths, Instant::now(), told::config().mtbf))
    }

    /// Adopts the maxima over all workers; returns the interval in force.
    pub fn agree(&mut self, terms: Terms) -> Duration {
        let change = quietly(|| self.pace.agree(terms, told::config().interval));
        if let Some(IntervalChange {
            cost,
            mtbf,
            interval,
        }) = change
        {
            events::emit(Kind::Interval {
                cost_ns: cost.as_nanos() as u64,
                mtbf_ns: mtbf.as_nanos() as u64,
                interval_ns: interval.as_nanos() as u64,
            });
        }
        self.interval()
    }

    /// Returns the interval in force.
    pub fn interval(&self) -> Duration {
        self.pace.interval(told::config().interval)
    }
}
