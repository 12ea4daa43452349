//! Signals that request a checkpoint on disk (`UNDERSTUDY_CHECKPOINT_ON`).
//!
//! Batch systems signal every process of a job, some processes more than once. Signals that follow
//! each other quickly are therefore one request.

use std::collections::BTreeMap;
use std::time::Instant;
use understudy_settings::{CheckpointCause, REPETITION_TIME};

/// Meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalMeaning {
    Request,
    /// Part of a request that was handled.
    Repetition,
    /// The job must end at once.
    End,
}

/// Signals that have requested checkpoints.
#[derive(Debug, Default)]
pub struct RequestSignals {
    /// Time of the last request by each signal.
    requested: BTreeMap<i32, Instant>,
}

impl RequestSignals {
    /// Returns the meaning of a signal that arrives now.
    pub fn meaning_of(&mut self, signal: i32) -> SignalMeaning {
        self.meaning_at(signal, Instant::now())
    }

    fn meaning_at(&mut self, signal: i32, now: Instant) -> SignalMeaning {
        match self.requested.get(&signal) {
            Some(&earlier) if now.duration_since(earlier) < REPETITION_TIME => {
                SignalMeaning::Repetition
            }
            Some(_) if CheckpointCause::Signal(signal).stops() => SignalMeaning::End,
            _ => {
                self.requested.insert(signal, now);
                SignalMeaning::Request
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_second_stop_ends_the_job_and_quick_signals_are_one_request() {
        let mut signals = RequestSignals::default();
        let start = Instant::now();
        let mut meaning =
            |signal, ms| signals.meaning_at(signal, start + Duration::from_millis(ms));
        assert_eq!(meaning(libc::SIGTERM, 0), SignalMeaning::Request);
        assert_eq!(meaning(libc::SIGUSR1, 10), SignalMeaning::Request);
        assert_eq!(meaning(libc::SIGTERM, 1999), SignalMeaning::Repetition);
        assert_eq!(meaning(libc::SIGTERM, 2001), SignalMeaning::End);
        assert_eq!(meaning(libc::SIGUSR1, 2005), SignalMeaning::Repetition);
        assert_eq!(meaning(libc::SIGUSR1, 2100), SignalMeaning::Request);
    }
}
