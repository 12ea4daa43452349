//! Failure rate of a job, estimated while it runs.
//!
//! Failures are modelled as a Poisson process whose rate may change. The estimate is Bayesian: the
//! rate has a gamma distribution, in which the user's expectation counts as `PRIOR_FAILURES`
//! failures within `PRIOR_FAILURES` expected times, and observations are added (Gelman et al.,
//! "Bayesian Data Analysis", 2.6). Two mechanisms let the estimate follow a rate that changes (the
//! adaptive frequency of MoLOToF, section 3.2):
//!
//! - Ageing: observations lose half of their weight in each `HALF_LIFE_SECONDS`, and the weight of
//!   the user's expectation, which a change point sets to 0, approaches 1 again.
//! - Change point: if the last few failures occurred faster than the estimate makes plausible, all
//!   earlier observations and the user's expectation are discarded.
//!
//! Example for the need of a change point: the user expects one failure per day, and eight failures
//! occur within an hour. The mean would be (2 + 8) failures in (48 + 1) h, one in five hours,
//! although one in 7.5 minutes is observed.

use bincode::{Decode, Encode};
use std::time::Duration;

/// Number of failures that the user's expectation is worth.
const PRIOR_FAILURES: f64 = 2.0;
/// Time in seconds after which observations have half of their weight.
const HALF_LIFE_SECONDS: f64 = 86_400.0;
/// Number of latest failures whose ages are stored, in order to detect a change point.
const RECENT_FAILURES: usize = 8;
/// Probability of the latest failures below which a change point is assumed.
const CHANGE_POINT_PROBABILITY: f64 = 1e-3;

/// Estimate of the rate of failures. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct FailureRate {
    /// Weight of the user's expectation, from 0 to 1.
    prior: f64,
    /// Weighted number of observed failures.
    failures: f64,
    /// Weighted observation time.
    observed: f64,
    /// Ages of the latest failures, the oldest failure first.
    recent_ages: Vec<f64>,
}

impl FailureRate {
    /// State without observations: only the user's expectation counts.
    pub const UNKNOWN: FailureRate = FailureRate {
        prior: 1.0,
        failures: 0.0,
        observed: 0.0,
        recent_ages: Vec::new(),
    };

    /// Records time that passed without a failure.
    pub fn record_time(&mut self, time: Duration) {
        let time = time.as_secs_f64();
        let remaining_weight = (-time / HALF_LIFE_SECONDS).exp2();
        self.prior = 1.0 - (1.0 - self.prior) * remaining_weight;
        self.failures *= remaining_weight;
        self.observed = (self.observed + time) * remaining_weight;
        self.recent_ages.iter_mut().for_each(|age| *age += time);
    }

    /// Records one failure, regardless of the number of processes that it has ended.
    ///
    /// `prior` is the user's expectation of the mean time between failures.
    pub fn record_failure(&mut self, prior: Duration) {
        let estimated = self.mtbf(prior).as_secs_f64();
        self.failures += 1.0;
        if self.recent_ages.len() == RECENT_FAILURES {
            self.recent_ages.remove(0);
        }
        self.recent_ages.push(0.0);
        // Tests the last 2, 3, … failures. The failure before them begins the time in which they
        // occurred, and is not counted itself.
        let newest = self.recent_ages.len() - 1;
        let change_point = (2..=newest)
            .map(|count| (count, self.recent_ages[newest - count]))
            .find(|&(count, time)| {
                poisson_at_least(count, time / estimated) < CHANGE_POINT_PROBABILITY
            });
        if let Some((count, time)) = change_point {
            self.prior = 0.0;
            self.failures = count as f64;
            self.observed = time.max(1e-3);
        }
    }

    /// Returns the mean time between failures; `prior` is the user's expectation.
    pub fn mtbf(&self, prior: Duration) -> Duration {
        let rate_with_prior = (PRIOR_FAILURES + self.failures)
            / (PRIOR_FAILURES * prior.as_secs_f64() + self.observed);
        let observed_rate = if self.observed > 0.0 {
            self.failures / self.observed
        } else {
            0.0
        };
        // Rates are averaged, not times: a long expected time would outweigh short observed times.
        let rate = self.prior * rate_with_prior + (1.0 - self.prior) * observed_rate;
        Duration::from_secs_f64(1.0 / rate)
    }
}

/// Returns the probability of at least `count` failures if `mean` are expected (Poisson).
fn poisson_at_least(count: usize, mean: f64) -> f64 {
    let mut term = (-mean).exp();
    let mut fewer = 0.0;
    for failures in 0..count {
        fewer += term;
        term *= mean / (failures + 1) as f64;
    }
    1.0 - fewer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint_interval::{daly_interval, expected_time};

    const HOUR: f64 = 3600.0;
    const DAY: Duration = Duration::from_secs(86_400);

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[track_caller]
    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found - expected).abs() <= tolerance * expected,
            "{found} instead of {expected}"
        );
    }

    #[test]
    fn without_failures_the_users_expectation_counts() {
        let mut rate = FailureRate::UNKNOWN;
        assert_eq!(rate.mtbf(DAY), DAY);
        rate.record_time(seconds(HOUR));
        // (2 · 24 h + 1 h) / 2, where the hour counts for 2^(−1/24)
        assert_near(
            rate.mtbf(DAY).as_secs_f64(),
            (48.0 + (-1.0_f64 / 24.0).exp2()) / 2.0 * HOUR,
            1e-9,
        );
    }

    #[test]
    fn the_users_expectation_counts_as_two_failures() {
        let mut rate = FailureRate::UNKNOWN;
        rate.record_failure(DAY);
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
        let interval = |rate: &FailureRate| daly_interval(cost, rate.mtbf(DAY).as_secs_f64());
        let mut rate = FailureRate::UNKNOWN;
        rate.record_time(seconds(10.0 * HOUR));
        for _ in 0..8 {
            rate.record_time(seconds(600.0));
            rate.record_failure(DAY);
        }
        assert_near(interval(&rate), daly_interval(cost, 600.0), 0.2);
        rate.record_time(seconds(24.0 * HOUR));
        assert!(interval(&rate) > 5.0 * daly_interval(cost, 600.0));
        rate.record_time(seconds(72.0 * HOUR));
        assert_near(interval(&rate), daly_interval(cost, 86_400.0), 0.2);
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

    /// The adaptive interval costs at most 5 % more than the best constant interval.
    ///
    /// The traces have a rate that is constant, rises, or has bursts.
    #[test]
    fn a_run_is_not_much_slower_than_with_the_best_constant_interval() {
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
            let mut adaptive = 0.0;
            let constants: Vec<f64> = (1..60).map(|step| 10.0 * 1.12_f64.powi(step)).collect();
            let mut constant = vec![0.0; constants.len()];
            for &(mean, length) in trace {
                let mut left = length;
                while left > 0.0 {
                    let span = times.next(mean).min(left);
                    left -= span;
                    // Expected time of `span` seconds of work at the true rate.
                    let price = |interval: f64| {
                        span * expected_time(1.0, cost, recovery, mean, 1.0 / interval)
                    };
                    adaptive += price(daly_interval(cost, rate.mtbf(DAY).as_secs_f64()));
                    constant
                        .iter_mut()
                        .zip(&constants)
                        .for_each(|(sum, &interval)| *sum += price(interval));
                    rate.record_time(seconds(span));
                    if left > 0.0 {
                        rate.record_failure(DAY);
                    }
                }
            }
            let best = constant.into_iter().fold(f64::INFINITY, f64::min);
            assert!(
                adaptive < 1.05 * best,
                "trace {number}: {adaptive} against {best}"
            );
        }
    }
}
