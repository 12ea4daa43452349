//! Time for which a peer was silent while this process was running.

use std::time::{Duration, Instant};

/// Silence, in time in which this process runs, after which a peer is lost.
pub const DOUBT_TIMEOUT: Duration = Duration::from_secs(1);
/// Limit of the time that counts between two updates.
///
/// A longer interval means that this process, and maybe its machine, was not running.
const MAX_STEP: Duration = Duration::from_millis(500);
/// Time between two updates while a peer is silent.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// Time for which a peer has been silent although this process was running.
///
/// Wall time is not sufficient: a machine that stops several times within seconds would declare its
/// peers lost as soon as it runs again.
#[derive(Debug, Default)]
pub struct Doubt {
    updated: Option<Instant>,
    silence: Duration,
}

impl Doubt {
    /// Adds the time since the last update if the peer `is_silent`.
    ///
    /// A peer that is not silent ends the doubt.
    pub fn update(&mut self, is_silent: bool) {
        if !is_silent {
            return *self = Doubt::default();
        }
        let now = Instant::now();
        if let Some(last) = self.updated.replace(now) {
            self.silence += now.duration_since(last).min(MAX_STEP);
        }
    }

    /// True if the peer may be declared lost.
    pub fn is_over(&self) -> bool {
        self.silence >= DOUBT_TIMEOUT
    }

    /// Returns the time until the next update; `None` without a doubt.
    pub fn limit(&self) -> Option<Duration> {
        Some(UPDATE_INTERVAL.saturating_sub(self.updated?.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_as_one_step() {
        let mut doubt = Doubt::default();
        doubt.update(true);
        assert!(doubt.limit().is_some_and(|limit| limit <= UPDATE_INTERVAL));
        std::thread::sleep(DOUBT_TIMEOUT + MAX_STEP);
        doubt.update(true);
        assert!(!doubt.is_over(), "{doubt:?}");
        let began = Instant::now();
        while !doubt.is_over() {
            std::thread::sleep(UPDATE_INTERVAL);
            doubt.update(true);
        }
        assert!(began.elapsed() >= DOUBT_TIMEOUT - MAX_STEP);
        doubt.update(false);
        assert_eq!((doubt.limit(), doubt.silence), (None, Duration::ZERO));
    }
}
