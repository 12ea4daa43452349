//! Formulas for the interval between checkpoints, in seconds.
//!
//! Failures occur at the rate λ = 1/MTBF, independently of each other; a checkpoint costs t_c.
//! Young, "A first order approximation to the optimum checkpoint interval" (1974); Daly, "A higher
//! order estimate of the optimum checkpoint interval for restart dumps" (2006); Liu's thesis,
//! chapter 4, for the expected time of a run and the number of its checkpoints.

use std::time::Duration;

/// Returns the computing time between two checkpoints by Young's formula: √(2 t_c MTBF).
pub fn young(cost: f64, mtbf: f64) -> f64 {
    (2.0 * cost * mtbf).sqrt()
}

/// Returns the interval by Daly's formula.
///
/// The formula also holds if a checkpoint takes long compared with the time between failures.
pub fn daly(cost: f64, mtbf: f64) -> f64 {
    if cost >= 2.0 * mtbf {
        return mtbf;
    }
    let ratio = (cost / (2.0 * mtbf)).sqrt();
    young(cost, mtbf) * (1.0 + ratio / 3.0 + ratio * ratio / 9.0) - cost
}

/// Returns the expected time of a run without checkpoints: (e^(λT) − 1)/λ.
///
/// The run takes `work` and is restarted from its begin after each failure.
pub fn expected_without(work: f64, mtbf: f64) -> f64 {
    (work / mtbf).exp_m1() * mtbf
}

/// Returns the number of checkpoints that minimises the expected time:
/// λT / √(2 (1 − e^(−λ t_c))).
pub fn optimal_count(work: f64, cost: f64, mtbf: f64) -> f64 {
    work / mtbf / rollback_root(cost, mtbf)
}

/// Returns the optimal interval, including the cost:
/// √(2 (1 − e^(−λ t_c)))/λ + t_c (Liu, 4.9).
///
/// The interval is the time from one checkpoint to the next in a run with the optimal number of
/// checkpoints.
pub fn optimal_interval(cost: f64, mtbf: f64) -> f64 {
    rollback_root(cost, mtbf) * mtbf + cost
}

/// Returns the share of checkpoints and rollback in the optimal time (Liu, 4.12).
///
/// The share is √(2 (1 − e^(−λ t_c))).
fn rollback_root(cost: f64, mtbf: f64) -> f64 {
    (-2.0 * (-cost / mtbf).exp_m1()).sqrt()
}

/// Returns the expected time of a run with `count` parts that end with checkpoints.
///
/// A part is repeated until no failure occurs in it. The return to the last checkpoint takes
/// `recovery` each time.
pub fn expected_with(work: f64, cost: f64, recovery: f64, mtbf: f64, count: f64) -> f64 {
    count * ((work / count + cost) / mtbf).exp_m1() * (mtbf + recovery)
}

/// Returns the expected time without checkpoints and without repeated work: T (1 + λ t_rr).
///
/// A lost part is restored after `recovery` (Liu, 4.13). Localised rollback cannot be faster.
pub fn expected_local(work: f64, recovery: f64, mtbf: f64) -> f64 {
    work * (1.0 + recovery / mtbf)
}

/// Returns the relative slowdown of a run by rollback: E_opt/E_free − 1 (Liu, 4.14).
pub fn relative_slowdown(with: f64, without: f64) -> f64 {
    with / without - 1.0
}

/// Returns the penalty for the optimal number of checkpoints.
///
/// The penalty is 1/(1 − √(2 (1 − e^(−λ t_c)))) − 1 (Liu, 4.15), for recoveries that
/// take equally long in both runs. Infinite if a checkpoint is so long that no time is left.
pub fn penalty_of_cost(cost: f64, mtbf: f64) -> f64 {
    penalty_of_root(rollback_root(cost, mtbf))
}

/// Returns the penalty if a checkpoint is short compared to the time between failures.
///
/// The penalty is 1/(1 − √(2 λ t_c)) − 1 (Liu, 4.16).
pub fn penalty_of_short_cost(cost: f64, mtbf: f64) -> f64 {
    penalty_of_root((2.0 * cost / mtbf).sqrt())
}

fn penalty_of_root(root: f64) -> f64 {
    if root < 1.0 {
        1.0 / (1.0 - root) - 1.0
    } else {
        f64::INFINITY
    }
}

/// Returns the interval of a running job: Daly's, with a lower limit.
///
/// The limit gives the asynchronous part of a checkpoint enough time.
pub fn job_interval(cost: Duration, mtbf: Duration) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(100);
    Duration::from_secs_f64(daly(cost.as_secs_f64(), mtbf.as_secs_f64())).max(SHORTEST)
}

/// Parses a duration of the settings: `500ms`, `10s`, `5m`, `6h`, `30d`, `5y`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (amount, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
    let scale = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        "y" => 365.25 * 86400.0,
        _ => return None,
    };
    let seconds = amount.parse::<f64>().ok()? * scale;
    let time = (seconds < 1e10).then(|| Duration::from_secs_f64(seconds))?;
    (!time.is_zero()).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_near(found: f64, expected: f64, part: f64) {
        assert!(
            (found - expected).abs() <= part * expected.abs(),
            "{found} instead of {expected}"
        );
    }

    /// Hand-computed values for a checkpoint of 50 s and a failure every 10,000 s.
    #[test]
    fn formulas_give_what_was_computed_by_hand() {
        // √(2 · 50 · 10000) = √1000000
        assert_near(young(50.0, 1e4), 1000.0, 1e-12);
        // ratio = √(50/20000) = 0.05; 1000 · (1 + 0.05/3 + 0.0025/9) − 50
        assert_near(daly(50.0, 1e4), 966.944_444, 1e-8);
        assert_near(daly(2e4, 1e4), 1e4, 1e-12);
        // e − 1 times the time between failures
        assert_near(expected_without(1e4, 1e4), 17_182.818_284_6, 1e-10);
        // 1 − e^(−0.005) = 0.004987521; √(2 · that) = 0.09987513; 1 / that
        assert_near(optimal_count(1e4, 50.0, 1e4), 10.012_502_6, 1e-6);
        // 10 · (e^(0.105) − 1) · 10000 = 10 · 0.110710610 · 10000
        assert_near(expected_with(1e4, 50.0, 0.0, 1e4, 10.0), 11_071.061_0, 1e-8);
        assert_near(
            expected_with(1e4, 50.0, 100.0, 1e4, 10.0),
            11_071.061_0 * 1.01,
            1e-8,
        );
    }

    /// Values of tables 5.2 and 5.3 of the thesis, and of its chapter 4.
    #[test]
    fn equations_of_the_thesis_give_its_numbers() {
        let (work, cost, mtbf) = (1233.42, 0.2434, 1.0 / 2e-4);
        assert_near(optimal_count(work, cost, mtbf), 25.0, 1e-3);
        assert_near(optimal_interval(cost, mtbf), 49.58, 1e-4);
        for (rate, count) in [(3.67e-4, 33.87), (7.37e-4, 47.99), (9.56e-4, 54.66)] {
            assert_near(optimal_count(work, cost, 1.0 / rate), count, 1e-3);
        }
        assert_near(expected_local(work, 0.1113, mtbf), work + 0.027_456, 1e-8);
        for (short, exactly, roughly) in
            [(0.00694, 0.133_28, 0.133_55), (0.01389, 0.199_18, 0.200_01)]
        {
            assert_near(penalty_of_cost(short, 1.0), exactly, 1e-4);
            assert_near(penalty_of_short_cost(short, 1.0), roughly, 1e-4);
        }
        assert_eq!(penalty_of_cost(1.0, 1.0), f64::INFINITY);
    }

    /// Compares the last two formulas, which approximate the first, for short checkpoints.
    #[test]
    fn what_rollback_costs_is_the_same_by_all_formulas() {
        for short in [1e-6, 1e-5, 1e-4] {
            let (mtbf, recovery, work) = (1e4, 3.0, 1e5);
            let cost = short * mtbf;
            let with = expected_with(work, cost, recovery, mtbf, optimal_count(work, cost, mtbf));
            let found = relative_slowdown(with, expected_local(work, recovery, mtbf));
            assert_near(penalty_of_cost(cost, mtbf), found, 2.0 * short.sqrt());
            assert_near(penalty_of_short_cost(cost, mtbf), found, 2.0 * short.sqrt());
        }
    }

    #[test]
    fn the_best_count_is_hardly_beaten_by_any_other() {
        for (work, cost, mtbf) in [(1e5, 50.0, 1e4), (1e6, 0.03, 2e4), (1e4, 500.0, 1e4)] {
            let expected = |count| expected_with(work, cost, 0.0, mtbf, count);
            let best = (1..200_000)
                .map(|count| expected(f64::from(count)))
                .fold(f64::INFINITY, f64::min);
            assert_near(expected(optimal_count(work, cost, mtbf)), best, 0.01);
            // Both optimise one quantity.
            assert_near(
                work / optimal_count(work, cost, mtbf),
                daly(cost, mtbf),
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

        /// Returns the time to the next failure.
        fn failure(&mut self, mtbf: f64) -> f64 {
            -mtbf * self.next().ln()
        }
    }

    /// Simulates a run event by event.
    fn run(random: &mut Random, parts: u32, part: f64, recovery: f64, mtbf: f64) -> f64 {
        let mut time = 0.0;
        for _ in 0..parts {
            loop {
                let failure = random.failure(mtbf);
                if failure > part {
                    break;
                }
                time += failure + recovery;
            }
            time += part;
        }
        time
    }

    #[test]
    fn simulated_runs_take_as_long_as_expected() {
        const RUNS: u32 = 40_000;
        for seed in [1, 2, 3] {
            let mut random = Random(seed);
            let mut mean = |parts: u32, part: f64, recovery: f64| {
                let all = (0..RUNS).map(|_| run(&mut random, parts, part, recovery, 1e3));
                all.sum::<f64>() / f64::from(RUNS)
            };
            assert_near(mean(1, 1500.0, 0.0), expected_without(1500.0, 1e3), 0.03);
            for count in [3, 20] {
                let part = 1500.0 / f64::from(count) + 20.0;
                assert_near(
                    mean(count, part, 5.0),
                    expected_with(1500.0, 20.0, 5.0, 1e3, f64::from(count)),
                    0.02,
                );
            }
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5h"), Some(Duration::from_secs(5400)));
        assert_eq!(parse_duration("2d"), Some(Duration::from_secs(172_800)));
        for wrong in ["", "10", "s", "0s", "-1s", "1w", "1e9y", "0.0000001ms"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
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
