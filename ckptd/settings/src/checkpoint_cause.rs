//! Requests for a checkpoint on disk, by a signal or a time limit.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use understudy_formats::duration::parse_duration;

/// Time in which a signal repeats an earlier request.
///
/// Batch systems signal every process of a job, some processes more than once.
pub const REPETITION_TIME: Duration = Duration::from_secs(2);
/// Time for a requested checkpoint if the user names none: Slurm's default for `KillWait`.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// Signals that may request a checkpoint, by the names in the setting.
const NAMES: [(&str, i32); 3] = [("TERM", TERM), ("USR1", USR1), ("USR2", USR2)];
/// Numbers of the signals on Linux (signal(7)).
const TERM: i32 = 15;
const USR1: i32 = 10;
const USR2: i32 = 12;

/// Cause of a request for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointCause {
    Signal(i32),
    TimeLimit,
}

impl CheckpointCause {
    /// True if the job stops when the checkpoint is on disk.
    pub fn stops(self) -> bool {
        !matches!(self, CheckpointCause::Signal(USR1 | USR2))
    }

    /// Returns a number, which is greater for causes that stop the job, and never 0.
    pub fn number(self) -> u64 {
        let number = match self {
            CheckpointCause::Signal(signal) => u64::from(signal.unsigned_abs()),
            CheckpointCause::TimeLimit => 0,
        };
        number + if self.stops() { 1 << 32 } else { 1 }
    }

    /// Returns the cause with this number; `None` for 0.
    pub fn from_number(number: u64) -> Option<CheckpointCause> {
        match number {
            0 => None,
            0x1_0000_0000 => Some(CheckpointCause::TimeLimit),
            number if number > 1 << 32 => Some(CheckpointCause::Signal(number as u32 as i32)),
            number => Some(CheckpointCause::Signal((number - 1) as i32)),
        }
    }

    /// Returns the exit status of a job that the cause ends without a checkpoint.
    pub fn status_without_checkpoint(self) -> i32 {
        match self {
            CheckpointCause::Signal(signal) => 128 + signal,
            CheckpointCause::TimeLimit => 128 + TERM,
        }
    }
}

impl fmt::Display for CheckpointCause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckpointCause::Signal(signal) = self else {
            return out.write_str("the time limit");
        };
        match NAMES.iter().find(|(_, number)| number == signal) {
            Some((name, _)) => write!(out, "SIG{name}"),
            None => write!(out, "signal {signal}"),
        }
    }
}

/// Signals that request a checkpoint on disk (`UNDERSTUDY_CHECKPOINT_ON`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSignals {
    pub signals: Vec<i32>,
    /// Time in which the checkpoint must be on disk.
    pub grace: Duration,
}

impl CheckpointSignals {
    /// Parses `TERM,USR1@30s`.
    ///
    /// # Errors
    /// Fails with the reason.
    pub fn parse(text: &str) -> Result<CheckpointSignals, String> {
        let (names, grace) = match text.split_once('@') {
            None => (text, DEFAULT_GRACE),
            Some((names, grace)) => {
                let time = parse_duration(grace).filter(|time| !time.is_zero());
                (
                    names,
                    time.ok_or_else(|| format!("`{grace}` is not a time (`30s`)"))?,
                )
            }
        };
        let number = |name: &str| {
            let bare = name.strip_prefix("SIG").unwrap_or(name);
            let known = NAMES.iter().find(|(known, _)| *known == bare);
            known
                .map(|(_, number)| *number)
                .ok_or_else(|| format!("`{name}` is none of the signals `TERM`, `USR1`, `USR2`"))
        };
        let signals = names.split(',').map(number).collect::<Result<_, _>>()?;
        Ok(CheckpointSignals { signals, grace })
    }

    /// Returns a mask in which bit `n - 1` stands for signal `n`.
    pub fn mask(&self) -> u64 {
        self.signals.iter().map(|signal| 1 << (signal - 1)).sum()
    }

    pub fn contains(&self, signal: i32) -> bool {
        self.signals.contains(&signal)
    }
}

/// End of the time that a batch system grants the job (`UNDERSTUDY_TIME_LIMIT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// To be asked from the batch system by `understudy run`.
    Auto,
    /// This time after the start.
    After(Duration),
    At(SystemTime),
}

impl TimeLimit {
    /// Parses `auto`, a duration, or `@` and seconds since 1970.
    ///
    /// # Errors
    /// Fails with the reason.
    pub fn parse(text: &str) -> Result<TimeLimit, String> {
        let wrong = || format!("`{text}` is neither `auto` nor a time (`12h`, `90m`)");
        match text.strip_prefix('@') {
            _ if text == "auto" => Ok(TimeLimit::Auto),
            Some(seconds) => {
                let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
                let since = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
                UNIX_EPOCH
                    .checked_add(since)
                    .map(TimeLimit::At)
                    .ok_or_else(wrong)
            }
            None => parse_duration(text).map(TimeLimit::After).ok_or_else(wrong),
        }
    }

    /// Returns the value of the setting for this end of the job.
    pub fn text_of(end: SystemTime) -> String {
        let since = end.duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("@{}.{:03}", since.as_secs(), since.subsec_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_the_cause_of_its_number_and_stops_count_more() {
        let stop = CheckpointCause::Signal(TERM);
        let continue_after = CheckpointCause::Signal(USR2);
        for cause in [stop, continue_after, CheckpointCause::TimeLimit] {
            assert_eq!(CheckpointCause::from_number(cause.number()), Some(cause));
        }
        assert_eq!(CheckpointCause::from_number(0), None);
        let limit = CheckpointCause::TimeLimit.number();
        assert!(stop.number() > limit && limit > continue_after.number());
    }

    #[test]
    fn signals_have_names_and_a_grace() {
        let parsed = CheckpointSignals::parse("TERM,SIGUSR1@45s").expect("valid");
        assert_eq!(parsed.signals, [TERM, USR1]);
        assert_eq!(parsed.grace, Duration::from_secs(45));
        assert_eq!(parsed.mask(), 1 << 14 | 1 << 9);
        let default = CheckpointSignals::parse("USR2").expect("valid");
        assert_eq!(default.grace, DEFAULT_GRACE);
        for wrong in ["", "KILL", "TERM,", "TERM@soon", "TERM@0s"] {
            assert!(CheckpointSignals::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn time_limits_are_read_as_they_are_written() {
        let end = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
        assert_eq!(
            TimeLimit::parse(&TimeLimit::text_of(end)),
            Ok(TimeLimit::At(end))
        );
        let half = Duration::from_secs(1800);
        assert_eq!(TimeLimit::parse("30m"), Ok(TimeLimit::After(half)));
        assert_eq!(TimeLimit::parse("auto"), Ok(TimeLimit::Auto));
        assert!(TimeLimit::parse("@soon").is_err() && TimeLimit::parse("soon").is_err());
    }
}
