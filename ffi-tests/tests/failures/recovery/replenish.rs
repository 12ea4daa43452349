//! New spares join the running job in place of spares that have become replacements.

use ffi_tests::daemon_process::Daemon;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{TestProgram, cg, heat2d, heat2d_of};
use ffi_tests::reduced_replicas::{self, ALL_REDUCED, WORKERS};
use ffi_tests::{Job, Kill, Outcome, Trigger};
use std::time::Duration;

/// Returns a program with 30 checkpoints, enough for five new spares.
///
/// The interval is in calls, so that a fast machine takes as many checkpoints as a slow one.
fn enough_of_heat2d() -> TestProgram {
    TestProgram {
        name: "heat2d, 12000",
        make: || heat2d_of("200", "12000", "200").interval("400calls"),
        ..heat2d()
    }
}

/// Half of [`enough_of_heat2d`], for one or two new spares.
fn half_of_heat2d() -> TestProgram {
    TestProgram {
        name: "heat2d, 6000",
        make: || heat2d_of("200", "6000", "200").interval("400calls"),
        ..heat2d()
    }
}

fn job(case: &TestProgram) -> Job {
    case.job().env("UNDERSTUDY_REPLENISH", "1").tcp()
}

#[track_caller]
fn assert_undisturbed(outcome: &Outcome, case: &TestProgram) {
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
}

fn joined(outcome: &Outcome) -> Vec<u32> {
    let rank = |line: &str| {
        let (_, rest) = line.split_once("spare rank ")?;
        rest.strip_suffix(" has joined the job [spare-joined]")?
            .parse()
            .ok()
    };
    outcome.own_lines().into_iter().filter_map(rank).collect()
}

#[test]
fn with_one_spare_five_failures_are_survived() {
    let case = enough_of_heat2d();
    // Ranks fail in the order of their epochs. Rank 4, the first spare, replaces worker 1. Rank 5,
    // the first new spare, replaces rank 4 and fails in turn. Then workers 2 and 0 fail.
    let fault = "kill rank=1 at=cut.end epoch=3; kill rank=5 at=cut.end epoch=8; kill rank=2 \
        at=ship.half epoch=12; kill rank=0 at=cut.end epoch=16";
    let outcome = job(&case)
        .fault(&format!("{fault}; kill rank=4 at=cut.end epoch=6"))
        .run();
    assert_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1, 1, 1, 2, 0]);
    assert_eq!(joined(&outcome), [5, 6, 7, 8, 9]);
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn joining_processes_replace_workers_of_a_program_with_libraries() {
    let case = cg();
    let outcome = job(&case)
        .fault("kill rank=3 at=cut.end epoch=3; kill rank=1 at=cut.end epoch=6")
        .run();
    assert_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[3, 1]);
    assert_eq!(joined(&outcome), [5, 6]);
    outcome.assert_nothing_left();
}

#[test]
fn a_new_spare_that_fails_while_joining_is_not_needed() {
    let case = half_of_heat2d();
    let fault = "kill rank=1 at=cut.end epoch=3; kill rank=5 at=boot.end";
    let outcome = job(&case).fault(fault).run();
    assert_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    outcome.assert_line(&["[no-new-spare]"]);
    outcome.assert_nothing_left();
}

/// Worker 2 is killed while the only spare joins; the job waits for the spare.
#[test]
fn a_worker_that_fails_while_a_new_spare_joins_is_replaced_by_it() {
    let case = half_of_heat2d();
    let fault = "kill rank=1 at=cut.end epoch=3; wait rank=5 at=boot.end delay=400ms; kill rank=2 \
        at=cut.end epoch=4";
    let outcome = job(&case).fault(fault).run();
    assert_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1, 2]);
    outcome.check(
        joined(&outcome).first() == Some(&5),
        "another spare has joined",
    );
    outcome.assert_nothing_left();
}

/// A daemon limits the idle spares of all jobs of its node to two.
///
/// The job gets a new spare, unless another job has two spares at this daemon.
#[test]
#[ignore = "a variant: make test-all"]
fn a_daemon_grants_new_spares() {
    let case = enough_of_heat2d();
    for (others, granted) in [(0, 1), (2, 0)] {
        let daemon = Daemon::start_with(&["--most-spares", "2"]);
        let _others: Vec<_> = (0..others)
            .map(|rank| daemon.unrelated_spare("another job", rank))
            .collect();
        let outcome = job(&case)
            .env("UNDERSTUDY_DAEMON", &daemon.socket().to_string_lossy())
            .fault("kill rank=1 at=cut.end epoch=3")
            .run();
        assert_undisturbed(&outcome, &case);
        outcome.assert_taken_over(&[1]);
        outcome.assert_nothing_left();
        outcome.check(
            joined(&outcome).len() == granted,
            "another number of new spares has joined",
        );
        let refused = outcome.own_lines().iter().any(|line| {
            line.contains("the daemon grants 0 new spare(s) instead of 1; the job continues with 0")
        });
        outcome.check(
            refused == (granted == 0),
            "the line about the refused spare is missing, or wrong",
        );
    }
}

/// Two workers are killed at once and use both spares up; two new spares join.
///
/// The new spares join independently of each other. Later they replace the two other workers, which
/// are killed at once too.
#[test]
#[ignore = "a variant: make test-all"]
fn two_may_join_at_once() {
    let case = enough_of_heat2d();
    let fault = "kill rank=1 at=cut.end epoch=3 delay=40ms; kill rank=3 at=cut.end epoch=3 \
        delay=40ms; kill rank=0 at=cut.end epoch=7 delay=40ms; kill rank=2 at=cut.end epoch=7 \
        delay=40ms";
    let outcome = job(&case)
        .spares(2)
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
        .fault(fault)
        .run();
    assert_undisturbed(&outcome, &case);
    outcome.assert_replaced(&[0, 1, 2, 3]);
    // The order of two spares that join independently is not defined.
    let mut found = joined(&outcome);
    found.chunks_mut(2).for_each(<[u32]>::sort_unstable);
    assert_eq!(found, [6, 7, 8, 9]);
    outcome.assert_nothing_left();
}

/// New spares roll back with all workers to the disk level, when replicas are lost.
#[test]
#[ignore = "a variant: make test-all"]
fn new_spares_use_the_disk_level() {
    let case = enough_of_heat2d();
    // Ranks 4 and 5, the first spares, replace workers 1 and 2. Then worker 1 fails together with
    // its buddy, worker 2; new spares replace both.
    let fault = "kill rank=1 at=cut.end epoch=3; kill rank=2 at=cut.end epoch=6; kill rank=4 \
        at=cut.end epoch=9 delay=40ms; kill rank=5 at=cut.end epoch=9 delay=40ms; pretend \
        no-memfd";
    let outcome = job(&case)
        .spares(2)
        .disk()
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
        .fault(fault)
        .run();
    assert_undisturbed(&outcome, &case);
    outcome.assert_line(&["[back-to-disk]"]);
    outcome.check(joined(&outcome).len() >= 3, "too few have joined");
    outcome.assert_nothing_left();
}

/// A new spare rebuilds static data by a replay, as the first spare does.
#[test]
#[ignore = "a variant: make test-all"]
fn joining_processes_replay_the_set_up_phase() {
    // Replicas are reduced again some time after the first failure.
    let case = enough_of_heat2d();
    let outcome = reduced_replicas::job(&case)
        .env("UNDERSTUDY_REPLENISH", "1")
        .tcp()
        .kill(Kill::at(1, ALL_REDUCED))
        .kill(
            Kill::at(
                2,
                Trigger::Resume {
                    rank: WORKERS,
                    recovery: 1,
                },
            )
            .after(Duration::from_millis(300)),
        )
        .run();
    reduced_replicas::assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1, 2]);
    assert_eq!(joined(&outcome), [5, 6]);
    for rank in [WORKERS, WORKERS + 1] {
        outcome.check(
            reduced_replicas::rebuilt(&outcome, rank) > 30,
            "nothing was rebuilt",
        );
    }
}
