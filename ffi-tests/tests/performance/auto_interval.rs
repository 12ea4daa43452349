//! UNDERSTUDY_INTERVAL=auto: the interval follows from the cost of checkpoints.
//!
//! The interval is equal in all workers.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, Outcome, Trigger, paths};
use std::time::Duration;
use understudy_formats::checkpoint_interval;
use understudy_formats::events::Kind;

fn heat() -> Job {
    Job::new(
        paths::example("heat2d"),
        &["300", "300", "8000", "heat.field"],
    )
    .workers(3)
}

/// Returns cost, mean time between failures and interval of each change, in nanoseconds.
fn changes(outcome: &Outcome, rank: u32) -> Vec<[u64; 3]> {
    let change = |record: &understudy_formats::events::Record| match record.kind {
        Kind::Interval {
            cost_ns,
            mtbf_ns,
            interval_ns,
        } => Some([cost_ns, mtbf_ns, interval_ns]),
        _ => None,
    };
    outcome.events(rank).iter().filter_map(change).collect()
}

#[test]
#[ignore = "a variant: make test-all"]
fn workers_agree_on_an_interval_that_fits_the_cost() {
    let job = || heat().interval("auto").env("UNDERSTUDY_MTBF", "3s");
    let kill = "kill rank=1 at=commit.end epoch=2";
    for outcome in [job().run(), job().fault(kill).run()] {
        outcome.assert_success();
        outcome.assert_like(&native(heat()), &["heat.field"]);
        let ranks = [0, 2];
        let [first, second] = ranks.map(|rank| changes(&outcome, rank));
        outcome.check(!first.is_empty(), "nothing was agreed on");
        outcome.check(
            first == second,
            &format!("the workers' intervals differ: {first:?}, {second:?}"),
        );
        for [cost, mtbf, interval] in first {
            let expected = checkpoint_interval::job_interval(
                Duration::from_nanos(cost),
                Duration::from_nanos(mtbf),
            );
            outcome.check(
                expected == Duration::from_nanos(interval),
                &format!("{interval} ns instead of {expected:?} for {cost} ns"),
            );
        }
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_replacement_uses_the_interval_of_the_others() {
    let outcome = heat()
        .interval("auto")
        .env("UNDERSTUDY_MTBF", "3s")
        .fault("kill rank=1 at=commit.end epoch=2")
        .run();
    outcome.assert_success();
    outcome.assert_taken_over(&[1]);
    // The spare is rank 3. The intervals that it has recorded equal the last intervals of worker
    // 0.
    let (replacement, survivor) = (changes(&outcome, 3), changes(&outcome, 0));
    outcome.check(!replacement.is_empty(), "the replacement has no interval");
    outcome.check(
        survivor.ends_with(&replacement),
        &format!("the intervals differ: {survivor:?}, {replacement:?}"),
    );
    // The user's expectation (UNDERSTUDY_MTBF) counts as two failures. A third failure soon
    // afterwards reduces the estimated mean time.
    let (before, after) = (survivor[0][1], replacement[0][1]);
    outcome.check(
        after * 10 < before * 9,
        &format!("the estimated time between failures did not fall: {before}, {after}"),
    );
}

/// The failure of a spare counts, because its node could as well run a worker.
///
/// The job is so long that several intervals follow the failures, all longer than the minimum.
#[test]
fn deaths_of_idle_spares_count_as_failures() {
    let long = || {
        Job::new(
            paths::example("heat2d"),
            &["300", "300", "16000", "heat.field"],
        )
        .workers(3)
    };
    let kill = |rank, epoch| Kill::at(rank, Trigger::Commit { rank: 0, epoch });
    let outcome = long()
        .spares(2)
        .interval("auto")
        .env("UNDERSTUDY_MTBF", "60s")
        .kill(kill(3, 2))
        .kill(kill(4, 3))
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(long()), &["heat.field"]);
    outcome.check(outcome.takeovers().is_empty(), "a worker was replaced");
    let found: Vec<u64> = changes(&outcome, 0)
        .iter()
        .map(|[_, mtbf, _]| *mtbf)
        .collect();
    let (first, least) = (found.first().copied(), found.iter().min().copied());
    let has_fallen = first
        .zip(least)
        .is_some_and(|(first, least)| least * 10 < first * 8);
    outcome.check(
        has_fallen,
        &format!("the estimated time between failures did not fall: {found:?}"),
    );
}
