//! A worker fails at a fault point: in a checkpoint, before one, at the end.

use crate::persistence::restarted_job;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Kill, Outcome, Random, Trigger, Verdicts, fault_at_commit, paths, variants};
use std::time::Duration;

const WORKERS: u32 = 4;

fn judge(
    verdicts: &mut Verdicts,
    case: &TestProgram,
    job: Job,
    worker: u32,
    what: &str,
) -> Outcome {
    let undisturbed = native(case.job());
    let outcome = job.run();
    println!(
        "{what}: {:?}, {} epochs",
        outcome.wall,
        outcome.last_epoch((worker + 1) % WORKERS)
    );
    verdicts.judge(what, || {
        outcome.assert_recovered_after(&undisturbed, case.files, case.canonical, &[worker]);
    });
    outcome
}

/// Returns a program with enough data for the fault point.
///
/// A short transfer is over before it is polled, and takes less time than the work between two
/// checkpoints.
fn case_for(point: &str) -> TestProgram {
    if ["ship.half", "whole.begin"].contains(&point) {
        programs::large_heat2d()
    } else {
        programs::heat2d()
    }
}

fn die_at(points: &[&str], epoch: &str, tracking: &str, workers: impl Fn(usize) -> Vec<u32>) {
    let mut verdicts = Verdicts::default();
    for (index, point) in points.iter().enumerate() {
        let case = case_for(point);
        for worker in workers(index) {
            let fault = format!("kill rank={worker} at={point}{epoch}");
            let job = case
                .job()
                .fault(&fault)
                .env("UNDERSTUDY_TRACKING", tracking);
            judge(
                &mut verdicts,
                &case,
                job,
                worker,
                &format!("{fault}, tracking {tracking}"),
            );
        }
    }
    verdicts.assert_all_good();
}

/// Fault points of a checkpoint, in their order.
const CHECKPOINT: &[&str] = &[
    "cut.begin",
    "cut.agreed",
    "cut.end",
    "capture.end",
    "ship.begin",
    "ship.half",
    "whole.begin",
    "ship.end",
    "commit.end",
];

fn everyone(_: usize) -> Vec<u32> {
    (0..WORKERS).collect()
}

/// Returns one worker, which differs from point to point; with `make test-all` two.
fn some(index: usize) -> Vec<u32> {
    let first = index as u32 % WORKERS;
    variants([first, (first + 1 + index as u32 % 2) % WORKERS], 1).collect()
}

#[test]
fn a_worker_may_die_at_any_point_of_a_checkpoint() {
    die_at(CHECKPOINT, " epoch=3", "auto", some);
}

#[test]
#[ignore = "long: make sweep"]
fn every_worker_may_die_at_any_point_of_a_checkpoint() {
    die_at(CHECKPOINT, " epoch=3", "pagemap", everyone);
    die_at(CHECKPOINT, " epoch=2", "compare", everyone);
}

#[test]
fn a_worker_may_die_inside_a_checkpoint_that_is_found_by_comparing() {
    die_at(
        &["capture.end", "ship.half", "commit.end"],
        " epoch=3",
        "compare",
        |index| vec![index as u32 + 1],
    );
}

#[test]
fn a_worker_may_die_at_the_end_of_mpi_init_and_at_the_begin_of_mpi_finalize() {
    die_at(&["init.end", "finalize.begin"], "", "auto", some);
}

#[test]
fn a_worker_that_dies_before_the_first_interval_leads_back_to_mpi_init() {
    let case = programs::lasting_heat2d();
    let mut random = Random::announced("before the first interval");
    let mut verdicts = Verdicts::default();
    for worker in variants([1, 0, 2, 3], 1) {
        let tracking = ["auto", "compare"][worker as usize % 2];
        let kill = Kill::at(worker, Trigger::Lines(1 + random.below(20) as usize))
            .after(Duration::from_micros(random.below(15_000)));
        let job = case
            .job()
            .interval("off")
            .env("UNDERSTUDY_TRACKING", tracking)
            .kill(kill);
        let what = format!("interval off, tracking {tracking}, {kill:?}");
        let outcome = judge(&mut verdicts, &case, job, worker, &what);
        verdicts.judge(&what, || {
            outcome.check(
                outcome.last_epoch((worker + 1) % WORKERS) <= 1,
                "there was a checkpoint besides the first",
            )
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn two_workers_may_die_one_after_the_other_if_there_are_two_spares() {
    let case = programs::heat2d();
    let mut verdicts = Verdicts::default();
    let undisturbed = native(case.job());
    for (first, second) in [(1, 2), (0, 3)] {
        let kills = [
            Kill::at(first, Trigger::Lines(8)),
            Kill::at(second, Trigger::Lines(25)),
        ];
        let outcome = kills
            .iter()
            .fold(case.job().spares(2), |job, &kill| job.kill(kill))
            .run();
        verdicts.judge(&format!("workers {first}, then {second}"), || {
            outcome.assert_recovered(&undisturbed, case.files, &[first, second]);
        });
    }
    verdicts.assert_all_good();
}

/// Stages of a recovery at whose end a process may fail.
const RECOVERY: &[&str] = &[
    "initialise",
    "agree",
    "replace",
    "fetch",
    "load",
    "rebuild",
    "reprotect",
];

#[test]
#[ignore = "a variant: make test-all"]
fn another_worker_may_die_during_the_recovery() {
    let case = programs::heat2d();
    let mut verdicts = Verdicts::default();
    let undisturbed = native(case.job());
    for stage in RECOVERY {
        // Four workers and two spares on one node: worker 3 stores the replica of worker 1, so it
        // must not be the second to fail.
        let (first, second) = (1, 2);
        let kill = Kill::at(first, Trigger::Lines(8));
        let outcome = case
            .job()
            .spares(2)
            .fault(&format!("kill rank={second} at={stage}"))
            .kill(kill)
            .run();
        println!(
            "{stage}: {:?}, recovery in {:?}",
            outcome.wall,
            outcome.slowest_recovery()
        );
        verdicts.judge(
            &format!("worker {first} killed, worker {second} dies after {stage}"),
            || {
                outcome.assert_success();
                outcome.assert_like(&undisturbed, case.files);
                outcome.check(!outcome.takeovers().is_empty(), "no part was taken over");
            },
        );
    }
    verdicts.assert_all_good();
}

/// Receives that match equal messages are reposted in the order of the program.
#[test]
fn receives_are_reposted_in_their_order() {
    let make = || {
        Job::new(paths::test_program("posting"), &[])
            .workers(2)
            .interval("1calls")
    };
    let case = TestProgram {
        name: "posting",
        tail: 0,
        files: &[],
        make,
        ..programs::heat2d()
    };
    let mut verdicts = Verdicts::default();
    // Half of the cuts occur between the cancellation of a receive and its completion.
    for (worker, epoch) in variants([(1, 7), (0, 4), (0, 8)], 2) {
        let fault = fault_at_commit(worker, epoch);
        let undisturbed = native(case.job());
        let outcome = case.job().fault(&fault).run();
        verdicts.judge(&fault, || {
            outcome.assert_recovered(&undisturbed, case.files, &[worker]);
        });
    }
    verdicts.assert_all_good();
}

/// Another process fails while receives are reposted.
///
/// A survivor or the replacement reposts the receives.
#[test]
fn a_worker_may_fail_while_receives_are_reposted() {
    let make = || {
        Job::new(paths::test_program("posting"), &[])
            .workers(2)
            .interval("1calls")
            .limit(Duration::from_secs(20))
    };
    let undisturbed = native(make());
    for (first, epoch, late, second) in variants([(0, 4, 1, 2), (1, 7, 2, 0)], 1) {
        let fault = format!(
            "kill rank={first} at=commit.end epoch={epoch}; wait rank={late} at=repost.begin \
             delay=200ms; kill rank={second} at=resume.end"
        );
        let outcome = make().spares(2).fault(&fault).run();
        outcome.assert_success();
        outcome.assert_like(&undisturbed, &[]);
        outcome.assert_nothing_left();
    }
}

/// The whole job has been restarted, and the other worker runs already.
#[test]
fn a_worker_may_fail_while_another_one_restarts() {
    let make = || {
        Job::new(paths::test_program("posting"), &["3000", "0"])
            .disk()
            .interval("53calls")
            .limit(Duration::from_secs(40))
    };
    let mut first = restarted_job::killed(make(), 3);
    let fault = "wait rank=0 at=repost.begin delay=200ms; kill rank=1 at=restart.end";
    let second = make()
        .env("UNDERSTUDY_RESTART", "1")
        .fault(fault)
        .run_after(&mut first);
    second.assert_taken_over(&[1]);
    restarted_job::assert_like(&native(make()), &[], &first.stdout, second);
}

/// Receives before a cut do not match messages that a broadcast sends after the cut.
///
/// Another worker still drains its receives at that time.
#[test]
fn no_message_overtakes_a_cut() {
    let make = || {
        Job::new(paths::test_program("crossing"), &[])
            .workers(3)
            .interval("1calls")
    };
    let fault = "wait rank=1 at=cut.agreed epoch=4 delay=300ms; kill rank=2 at=commit.end epoch=4";
    let outcome = make().fault(fault).run();
    outcome.assert_recovered(&native(make()), &[], &[2]);
}
