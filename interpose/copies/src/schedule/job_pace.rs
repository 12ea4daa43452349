//! Pace of checkpoints in this process, with the clock, settings and warnings of the job.

use crate::system_calls::{self, with_exceptions_masked};
use crate::{events, process_info, reinit};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::events::Kind;
use understudy_formats::warning::{self, WarningWatch};
use understudy_policy::pace::{CheckpointPace, Failures, IntervalChange, Terms};

/// Time between two polls for a warning.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Pace of checkpoints, and the file with warnings that affect it.
#[derive(Debug)]
pub struct JobPace {
    pace: CheckpointPace,
    warnings: WarningWatch,
    /// Time of the last poll for a warning.
    polled: Option<Instant>,
}

impl JobPace {
    /// The state at the start of the process.
    pub const START: JobPace = JobPace {
        pace: CheckpointPace::START,
        warnings: WarningWatch::NEW,
        polled: None,
    };

    /// Discards the agreed interval, after a recovery.
    pub fn after_recovery(self) -> JobPace {
        let pace = self.pace.after_recovery(reinit::spare_deaths());
        JobPace { pace, ..self }
    }

    /// Records the time for which a checkpoint has paused the program.
    pub fn measure(&mut self, cost: Duration) {
        self.pace.measure(cost);
    }

    /// Returns the estimate of failures up to this moment, for a replacement.
    pub fn failures(&mut self) -> Failures {
        with_exceptions_masked(|| self.pace.failures(Instant::now()).clone())
    }

    /// Replaces the estimate of failures by that of other processes.
    pub fn adopt(&mut self, failures: Failures) {
        self.pace.adopt(failures, Instant::now());
    }

    /// Records a failure that has set the job back and may recur.
    pub fn fail(&mut self) {
        with_exceptions_masked(|| self.pace.fail(Instant::now(), process_info::config().mtbf));
    }

    /// Returns true if a warning requests a checkpoint after the last cut.
    ///
    /// Polls for a warning from time to time; the other contents of the warning apply from this
    /// moment. Workers poll at different moments, and each of them detects the warning, but one
    /// cut is enough for all workers.
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
        let file = process_info::config().warnings.clone();
        let file = file.unwrap_or_else(|| warning::file_in(reinit::directory()));
        match self.warnings.poll(&file) {
            Ok(Some(news)) => {
                log::info!("a warning: {:?}", news.warning);
                self.pace.warn(&news, before, now);
            }
            Ok(None) => (),
            Err(why) => system_calls::print_message(message::warning_unusable(file.display(), why)),
        }
    }

    /// Returns this process's terms for the vote.
    pub fn terms(&mut self) -> Terms {
        let deaths = reinit::spare_deaths();
        with_exceptions_masked(|| {
            self.pace
                .terms(deaths, Instant::now(), process_info::config().mtbf)
        })
    }

    /// Adopts the maxima over all workers; returns the interval in force.
    pub fn agree(&mut self, terms: Terms) -> Duration {
        let change =
            with_exceptions_masked(|| self.pace.agree(terms, process_info::config().interval));
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
        self.pace.interval(process_info::config().interval)
    }
}
