//! Formulas for the interval between checkpoints, and for the time of a run with failures.
//!
//! All times are in seconds. Failures are a Poisson process with the rate λ = 1/MTBF. The symbols
//! of the formulas and the parameters of the functions are:
//!
//! ```text
//!   T      work       time of the run without failures and without checkpoints
//!   t_c    cost       time that one checkpoint takes
//!   t_rr   recovery   time from a failure to the resumed program
//!   MTBF   mtbf       mean time between failures of the whole job
//!   n      count      number of checkpoints in the run
//! ```
//!
//! An *interval* is the computing time between two checkpoints; a *period* also contains the
//! checkpoint itself.
//!
//! Sources: Young, "A first order approximation to the optimum checkpoint interval" (1974); Daly,
//! "A higher order estimate of the optimum checkpoint interval for restart dumps" (2006); Liu's
//! thesis, chapter 4, for the expected time of a run and the number of its checkpoints.

use std::time::Duration;

/// Returns the optimal interval by Young's first-order formula: √(2 t_c MTBF).
pub fn young_interval(cost: f64, mtbf: f64) -> f64 {
    (2.0 * cost * mtbf).sqrt()
}

/// Returns the optimal interval by Daly's higher-order formula.
///
/// With r = √(t_c / (2 MTBF)), the interval is √(2 t_c MTBF) (1 + r/3 + r²/9) − t_c if
/// t_c < 2 MTBF, and MTBF otherwise. Unlike Young's, the formula holds if a checkpoint is not short
/// compared with the MTBF.
pub fn daly_interval(cost: f64, mtbf: f64) -> f64 {
    if cost >= 2.0 * mtbf {
        return mtbf;
    }
    let ratio = (cost / (2.0 * mtbf)).sqrt();
    young_interval(cost, mtbf) * (1.0 + ratio / 3.0 + ratio * ratio / 9.0) - cost
}

/// Returns the expected time of a run without checkpoints: (e^(λT) − 1)/λ.
///
/// Each failure restarts the run from its beginning.
pub fn expected_time_without_checkpoints(work: f64, mtbf: f64) -> f64 {
    (work / mtbf).exp_m1() * mtbf
}

/// Returns the expected time of a run with `count` checkpoints.
///
/// The time is n (e^(λ(T/n + t_c)) − 1) (1/λ + t_rr): the run consists of `count` equal segments of
/// T/n of work, each of which ends with a checkpoint. A segment is repeated until no failure occurs
/// in it. Each failure also costs `recovery`.
pub fn expected_time(work: f64, cost: f64, recovery: f64, mtbf: f64, count: f64) -> f64 {
    count * ((work / count + cost) / mtbf).exp_m1() * (mtbf + recovery)
}

/// Returns the number of checkpoints that approximately minimises [`expected_time`].
///
/// Formula: λT / √(2 (1 − e^(−λ t_c))).
pub fn optimal_checkpoint_count(work: f64, cost: f64, mtbf: f64) -> f64 {
    work / mtbf / overhead_fraction(cost, mtbf)
}

/// Returns the period of a run with the optimal number of checkpoints.
///
/// Formula (Liu, 4.9): √(2 (1 − e^(−λ t_c)))/λ + t_c.
pub fn optimal_period(cost: f64, mtbf: f64) -> f64 {
    overhead_fraction(cost, mtbf) * mtbf + cost
}

/// Returns the fraction of the optimal time that is checkpoints and repeated work.
///
/// Formula (Liu, 4.12): √(2 (1 − e^(−λ t_c))).
fn overhead_fraction(cost: f64, mtbf: f64) -> f64 {
    (-2.0 * (-cost / mtbf).exp_m1()).sqrt()
}

/// Returns the expected time of a run that pays only for recoveries.
///
/// Formula (Liu, 4.13): T (1 + λ t_rr). Such a run has no checkpoints and repeats no work. Its time
/// is a lower limit for localised rollback, in which only the failed process repeats work.
pub fn localised_rollback_limit(work: f64, recovery: f64, mtbf: f64) -> f64 {
    work * (1.0 + recovery / mtbf)
}

/// Returns the penalty of rollback, the relative extra time: E_opt/E_free − 1 (Liu, 4.14).
///
/// `optimal` is [`expected_time`] with the optimal number of checkpoints, `rollback_free` is
/// [`localised_rollback_limit`].
pub fn rollback_penalty(optimal: f64, rollback_free: f64) -> f64 {
    optimal / rollback_free - 1.0
}

/// Returns the penalty of rollback from t_c and MTBF alone.
///
/// Formula (Liu, 4.15): 1/(1 − √(2 (1 − e^(−λ t_c)))) − 1. The formula assumes that recoveries take
/// equally long with and without rollback. The penalty is infinite if a checkpoint takes so long
/// that the run makes no progress.
pub fn rollback_penalty_by_cost(cost: f64, mtbf: f64) -> f64 {
    penalty_by_overhead(overhead_fraction(cost, mtbf))
}

/// Returns the penalty of rollback for t_c ≪ MTBF: 1/(1 − √(2 λ t_c)) − 1 (Liu, 4.16).
pub fn rollback_penalty_by_short_cost(cost: f64, mtbf: f64) -> f64 {
    penalty_by_overhead((2.0 * cost / mtbf).sqrt())
}

fn penalty_by_overhead(fraction: f64) -> f64 {
    if fraction < 1.0 {
        1.0 / (1.0 - fraction) - 1.0
    } else {
        f64::INFINITY
    }
}

/// Returns the interval of a running job: Daly's, but at least 100 ms.
///
/// Within an interval the previous checkpoint is sent to the buddies, which needs time.
pub fn job_interval(cost: Duration, mtbf: Duration) -> Duration {
    const MIN_INTERVAL: Duration = Duration::from_millis(100);
    Duration::from_secs_f64(daly_interval(cost.as_secs_f64(), mtbf.as_secs_f64())).max(MIN_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found - expected).abs() <= tolerance * expected.abs(),
            "{found} instead of {expected}"
        );
    }

    /// Hand-computed values for a checkpoint of 50 s and a failure every 10,000 s.
    #[test]
    fn formulas_give_what_was_computed_by_hand() {
        // √(2 · 50 · 10000) = √1000000
        assert_near(young_interval(50.0, 1e4), 1000.0, 1e-12);
        // ratio = √(50/20000) = 0.05; 1000 · (1 + 0.05/3 + 0.0025/9) − 50
        assert_near(daly_interval(50.0, 1e4), 966.944_444, 1e-8);
        assert_near(daly_interval(2e4, 1e4), 1e4, 1e-12);
        // e − 1 times the time between failures
        assert_near(
            expected_time_without_checkpoints(1e4, 1e4),
            17_182.818_284_6,
            1e-10,
        );
        // 1 − e^(−0.005) = 0.004987521; √(2 · that) = 0.09987513; 1 / that
        assert_near(optimal_checkpoint_count(1e4, 50.0, 1e4), 10.012_502_6, 1e-6);
        // 10 · (e^(0.105) − 1) · 10000 = 10 · 0.110710610 · 10000
        assert_near(expected_time(1e4, 50.0, 0.0, 1e4, 10.0), 11_071.061_0, 1e-8);
        assert_near(
            expected_time(1e4, 50.0, 100.0, 1e4, 10.0),
            11_071.061_0 * 1.01,
            1e-8,
        );
    }

    /// Values of tables 5.2 and 5.3 of the thesis, and of its chapter 4.
    #[test]
    fn equations_of_the_thesis_give_its_numbers() {
        let (work, cost, mtbf) = (1233.42, 0.2434, 1.0 / 2e-4);
        assert_near(optimal_checkpoint_count(work, cost, mtbf), 25.0, 1e-3);
        assert_near(optimal_period(cost, mtbf), 49.58, 1e-4);
        for (rate, count) in [(3.67e-4, 33.87), (7.37e-4, 47.99), (9.56e-4, 54.66)] {
            assert_near(
                optimal_checkpoint_count(work, cost, 1.0 / rate),
                count,
                1e-3,
            );
        }
        assert_near(
            localised_rollback_limit(work, 0.1113, mtbf),
            work + 0.027_456,
            1e-8,
        );
        for (short, exactly, roughly) in
            [(0.00694, 0.133_28, 0.133_55), (0.01389, 0.199_18, 0.200_01)]
        {
            assert_near(rollback_penalty_by_cost(short, 1.0), exactly, 1e-4);
            assert_near(rollback_penalty_by_short_cost(short, 1.0), roughly, 1e-4);
        }
        assert_eq!(rollback_penalty_by_cost(1.0, 1.0), f64::INFINITY);
    }

    /// Compares both approximations with the penalty of the expected times, for short checkpoints.
    #[test]
    fn the_penalty_of_rollback_agrees_in_all_formulas() {
        for short in [1e-6, 1e-5, 1e-4] {
            let (mtbf, recovery, work) = (1e4, 3.0, 1e5);
            let cost = short * mtbf;
            let optimal = expected_time(
                work,
                cost,
                recovery,
                mtbf,
                optimal_checkpoint_count(work, cost, mtbf),
            );
            let found = rollback_penalty(optimal, localised_rollback_limit(work, recovery, mtbf));
            assert_near(
                rollback_penalty_by_cost(cost, mtbf),
                found,
                2.0 * short.sqrt(),
            );
            assert_near(
                rollback_penalty_by_short_cost(cost, mtbf),
                found,
                2.0 * short.sqrt(),
            );
        }
    }

    #[test]
    fn the_best_count_is_hardly_beaten_by_any_other() {
        for (work, cost, mtbf) in [(1e5, 50.0, 1e4), (1e6, 0.03, 2e4), (1e4, 500.0, 1e4)] {
            let expected = |count| expected_time(work, cost, 0.0, mtbf, count);
            let best = (1..200_000)
                .map(|count| expected(f64::from(count)))
                .fold(f64::INFINITY, f64::min);
            assert_near(
                expected(optimal_checkpoint_count(work, cost, mtbf)),
                best,
                0.01,
            );
            // The intervals of both sources agree roughly.
            assert_near(
                work / optimal_checkpoint_count(work, cost, mtbf),
                daly_interval(cost, mtbf),
                0.2,
            );
        }
    }

    /// Generator of numbers in (0, 1) (Steele and Vigna's splitmix64).
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON / 4.0
        }

        fn time_to_failure(&mut self, mtbf: f64) -> f64 {
            -mtbf * self.next().ln()
        }
    }

    /// Simulates a run of `count` segments failure by failure; returns its time.
    fn run(random: &mut Random, count: u32, segment: f64, recovery: f64, mtbf: f64) -> f64 {
        let mut time = 0.0;
        for _ in 0..count {
            loop {
                let failure = random.time_to_failure(mtbf);
                if failure > segment {
                    break;
                }
                time += failure + recovery;
            }
            time += segment;
        }
        time
    }

    #[test]
    fn simulated_runs_take_as_long_as_expected() {
        const RUNS: u32 = 40_000;
        for seed in [1, 2, 3] {
            let mut random = Random(seed);
            let mut mean = |count: u32, segment: f64, recovery: f64| {
                let all = (0..RUNS).map(|_| run(&mut random, count, segment, recovery, 1e3));
                all.sum::<f64>() / f64::from(RUNS)
            };
            assert_near(
                mean(1, 1500.0, 0.0),
                expected_time_without_checkpoints(1500.0, 1e3),
                0.03,
            );
            for count in [3, 20] {
                let segment = 1500.0 / f64::from(count) + 20.0;
                assert_near(
                    mean(count, segment, 5.0),
                    expected_time(1500.0, 20.0, 5.0, 1e3, f64::from(count)),
                    0.02,
                );
            }
        }
    }

    #[test]
    fn a_running_job_is_never_hurried_too_much() {
        let second = Duration::from_secs(1);
        assert_eq!(
            job_interval(Duration::ZERO, second),
            Duration::from_millis(100)
        );
        assert_eq!(job_interval(second * 50, second * 10_000).as_secs(), 966);
    }
}
