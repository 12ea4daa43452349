//! Time for which a peer was silent while this process was running.

use std::time::Duration;

/// Silence, in time in which this process runs, after which a peer may be judged.
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
    updated: Option<Duration>,
    silence: Duration,
}

impl Doubt {
    /// Adds the time since the last update if the peer `is_silent`.
    ///
    /// A peer that is not silent ends the doubt.
    pub fn update(&mut self, now: Duration, is_silent: bool) {
        if !is_silent {
            return *self = Doubt::default();
        }
        if let Some(last) = self.updated.replace(now) {
            self.silence += now.saturating_sub(last).min(MAX_STEP);
        }
    }

    /// True if the peer may be judged.
    pub fn is_over(&self) -> bool {
        self.silence >= DOUBT_TIMEOUT
    }

    /// Returns the time until the next update; `None` without a doubt.
    pub fn limit(&self, now: Duration) -> Option<Duration> {
        let updated = self.updated?;
        Some(UPDATE_INTERVAL.saturating_sub(now.saturating_sub(updated)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_as_one_step() {
        let mut now = Duration::from_secs(100);
        let mut doubt = Doubt::default();
        doubt.update(now, true);
        assert_eq!(doubt.limit(now), Some(UPDATE_INTERVAL));
        now += Duration::from_secs(60);
        doubt.update(now, true);
        assert!(!doubt.is_over(), "{doubt:?}");
        let began = now;
        while !doubt.is_over() {
            now += UPDATE_INTERVAL;
            doubt.update(now, true);
        }
        assert!(now - began >= DOUBT_TIMEOUT - MAX_STEP);
        doubt.update(now, false);
        assert_eq!((doubt.limit(now), doubt.is_over()), (None, false));
    }
}
