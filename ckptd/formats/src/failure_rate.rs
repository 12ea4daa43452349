//! Failure rate of a job, estimated while it runs.
//!
//! Failures are modelled as a Poisson process whose rate may change. The belief about the rate is a
//! gamma distribution: the user's expectation counts as `PRIOR_FAILURES` failures in the time
//! that these would take, and observations are added (Gelman et al., "Bayesian Data Analysis",
//! 2.6). Two mechanisms let the belief follow the environment (the adaptive frequency of MoLOToF,
//! section 3.2):
//!
//! - observations lose half of their weight after `HALF_LIFE_SECONDS`, and the user's expectation
//!   regains weight;
//! - a change point: if the last few failures occurred faster than the belief allows, all earlier
//!   observations are discarded.
//!
//! The second is necessary, because a belief in one failure per day outweighs eight in an hour:
//! their mean would still be one in five hours.

use bincode::{Decode, Encode};
use std::time::Duration;

/// Number of failures as which the user's expectation counts.
const PRIOR_FAILURES: f64 = 2.0;
/// Time in seconds after which observations have half of their weight.
const HALF_LIFE_SECONDS: f64 = 86_400.0;
/// Number of failures that are evaluated together.
const RECENT_FAILURES: usize = 8;
/// Probability of recent failures below which the belief is discarded.
const CHANGE_POINT_PROBABILITY: f64 = 1e-3;

/// Belief about the rate of failures. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct FailureRate {
    /// Weight of the user's expectation, from 0 to 1.
    prior: f64,
    /// Weighted number of observed failures.
    failures: f64,
    /// Weighted observation time.
    watched: f64,
    /// Time since each of the last failures, the latest last.
    recent: Vec<f64>,
}

impl FailureRate {
    /// State without observations: only the user's expectation counts.
    pub const UNKNOWN: FailureRate = FailureRate {
        prior: 1.0,
        failures: 0.0,
        watched: 0.0,
        recent: Vec::new(),
    };

    /// Records time without a failure.
    pub fn pass(&mut self, time: Duration) {
        let time = time.as_secs_f64();
        let kept = (-time / HALF_LIFE_SECONDS).exp2();
        self.prior = 1.0 - (1.0 - self.prior) * kept;
        self.failures *= kept;
        self.watched = (self.watched + time) * kept;
        self.recent.iter_mut().for_each(|ago| *ago += time);
    }

    /// Records one failure, regardless of the number of processes that it has ended.
    ///
    /// `prior` is the user's expectation of the mean time between failures.
    pub fn fail(&mut self, prior: Duration) {
        let believed = self.mtbf(prior).as_secs_f64();
        self.failures += 1.0;
        if self.recent.len() == RECENT_FAILURES {
            self.recent.remove(0);
        }
        self.recent.push(0.0);
        // The first of these failures only begins the time; it is not counted.
        let changed = (2..self.recent.len())
            .map(|came| (came, self.recent[self.recent.len() - 1 - came]))
            .find(|&(came, within)| {
                poisson_at_least(came, within / believed) < CHANGE_POINT_PROBABILITY
            });
        if let Some((came, within)) = changed {
            self.prior = 0.0;
            self.failures = came as f64;
            self.watched = within.max(1e-3);
        }
    }

    /// Returns the mean time between failures; `prior` is the user's expectation.
    pub fn mtbf(&self, prior: Duration) -> Duration {
        let with_prior = (PRIOR_FAILURES + self.failures)
            / (PRIOR_FAILURES * prior.as_secs_f64() + self.watched);
        let seen = if self.watched > 0.0 {
            self.failures / self.watched
        } else {
            0.0
        };
        // Rates are averaged, not times: a long expected time would outweigh short observed ones.
        Duration::from_secs_f64(1.0 / (self.prior * with_prior + (1.0 - self.prior) * seen))
    }
}

/// Returns the probability of at least `count` failures if `mean` are expected (Poisson).
fn poisson_at_least(count: usize, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut fewer = 0.0;
    for number in 0..count {
        fewer += term;
        term *= mean / (number + 1) as f64;
    }
    1.0 - fewer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::{daly, expected_with};

    const HOUR: f64 = 3600.0;
    const DAY: Duration = Duration::from_secs(86_400);

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64, part: f64) {
        assert!(
            (found - expected).abs() <= part * expected,
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn without_failures_the_users_word_counts() {
        let mut rate = FailureRate::UNKNOWN;
        assert_eq!(rate.mtbf(DAY), DAY);
        rate.pass(seconds(HOUR));
        // (2 · 24 h + 1 h) / 2, where the hour counts for 2^(−1/24)
        assert_near(
            rate.mtbf(DAY).as_secs_f64(),
            (48.0 + (-1.0_f64 / 24.0).exp2()) / 2.0 * HOUR,
            1e-9,
        );
    }

    #[test]
    fn a_failure_counts_as_one_beside_two() {
        let mut rate = FailureRate::UNKNOWN;
        rate.fail(DAY);
        assert_near(rate.mtbf(DAY).as_secs_f64(), 16.0 * HOUR, 1e-9);
    }

    #[test]
    fn the_probability_is_that_of_tables() {
        assert_near(poisson_at_least(1, 1.0), 0.632_120_559, 1e-8);
        assert_near(poisson_at_least(3, 2.0), 0.323_323_584, 1e-8);
        assert_near(poisson_at_least(2, 0.01), 4.966_8e-5, 1e-3);
    }

    /// Lowers the mean time from a day to ten minutes.
    ///
    /// The interval must follow within eight failures, and rise again afterwards.
    #[test]
    fn the_interval_follows_a_change() {
        let cost = 0.5;
        let interval = |rate: &FailureRate| daly(cost, rate.mtbf(DAY).as_secs_f64());
        let mut rate = FailureRate::UNKNOWN;
        rate.pass(seconds(10.0 * HOUR));
        for _ in 0..8 {
            rate.pass(seconds(600.0));
            rate.fail(DAY);
        }
        assert_near(interval(&rate), daly(cost, 600.0), 0.2);
        rate.pass(seconds(24.0 * HOUR));
        assert!(interval(&rate) > 5.0 * daly(cost, 600.0));
        rate.pass(seconds(72.0 * HOUR));
        assert_near(interval(&rate), daly(cost, 86_400.0), 0.2);
    }

    /// Generator of exponentially distributed times (SplitMix64).
    struct Times(u64);

    impl Times {
        fn next(&mut self, mean: f64) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = self.0;
            bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let part = ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
            -mean * (1.0 - part).ln()
        }
    }

    /// Compares the cost of a run with that of the best constant interval.
    ///
    /// The traces have a rate that is constant, rises, or has bursts.
    #[test]
    fn a_run_is_not_much_slower_than_with_the_best_interval_that_stays() {
        let (cost, recovery) = (2.0, 1.0);
        let traces: [&[(f64, f64)]; 3] = [
            &[(86_400.0, 4000.0 * HOUR)],
            &[(86_400.0, 500.0 * HOUR), (1800.0, 500.0 * HOUR)],
            &[
                (86_400.0, 200.0 * HOUR),
                (900.0, 20.0 * HOUR),
                (86_400.0, 200.0 * HOUR),
                (900.0, 20.0 * HOUR),
            ],
        ];
        for (number, trace) in traces.into_iter().enumerate() {
            let mut times = Times(number as u64);
            let mut rate = FailureRate::UNKNOWN;
            let mut learned = 0.0;
            let constants: Vec<f64> = (1..60).map(|step| 10.0 * 1.12_f64.powi(step)).collect();
            let mut constant = vec![0.0; constants.len()];
            for &(mean, length) in trace {
                let mut left = length;
                while left > 0.0 {
                    let until = times.next(mean).min(left);
                    left -= until;
                    // Duration of a second of work, at the true rate.
                    let price = |interval: f64| {
                        until * expected_with(1.0, cost, recovery, mean, 1.0 / interval)
                    };
                    learned += price(daly(cost, rate.mtbf(DAY).as_secs_f64()));
                    constant
                        .iter_mut()
                        .zip(&constants)
                        .for_each(|(sum, &interval)| *sum += price(interval));
                    rate.pass(seconds(until));
                    if left > 0.0 {
                        rate.fail(DAY);
                    }
                }
            }
            let best = constant.into_iter().fold(f64::INFINITY, f64::min);
            assert!(
                learned < 1.05 * best,
                "trace {number}: {learned} against {best}"
            );
        }
    }
}
