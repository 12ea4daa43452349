//! How long a silent peer has been listened to.

use std::time::{Duration, Instant};

/// Time to listen to a side that has been silent for too long.
pub const DOUBT: Duration = Duration::from_secs(1);
/// The longest time between two updates that counts.
///
/// In a longer one this process has stood still, maybe with all of its machine.
const STEP: Duration = Duration::from_millis(100);

/// The time for which this process has listened to a silent peer in vain.
///
/// Only time in which it ran is counted. A machine that stands still several times in a row would otherwise take its peers for lost.
#[derive(Debug, Default)]
pub struct Doubt {
    updated: Option<Instant>,
    listened: Duration,
}

impl Doubt {
    /// Adds the time since the last update if the peer `is_silent`.
    ///
    /// Otherwise there is no doubt any more.
    pub fn update(&mut self, is_silent: bool) {
        if !is_silent {
            return *self = Doubt::default();
        }
        let now = Instant::now();
        if let Some(last) = self.updated.replace(now) {
            self.listened += now.duration_since(last).min(STEP);
        }
    }

    /// True if the peer may be taken for lost.
    pub fn is_over(&self) -> bool {
        self.listened >= DOUBT
    }

    /// Time until the next update; `None` without a doubt.
    pub fn limit(&self) -> Option<Duration> {
        Some(STEP.saturating_sub(self.updated?.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_counts_as_one_step() {
        let mut doubt = Doubt::default();
        doubt.update(true);
        assert!(doubt.limit().is_some_and(|limit| limit <= STEP));
        let began = Instant::now();
        while began.elapsed() < DOUBT {
            std::thread::sleep(3 * STEP);
            doubt.update(true);
        }
        assert!(!doubt.is_over(), "{doubt:?}");
        doubt.update(false);
        assert_eq!((doubt.limit(), doubt.listened), (None, Duration::ZERO));
    }
}
