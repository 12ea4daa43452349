//! Workers are killed at fault points, from MPI_Init to MPI_Finalize.
//!
//! The points are those of a checkpoint, of MPI_Init and MPI_Finalize, of a recovery and of a
//! restart. Some first failures occur when lines have been printed, instead of at a fault point.

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
/// All workers pass the points with any amount of data. With more data, pages are in transit at
/// `ship.half`. At `whole.begin`, sending the replicas of the unfinished checkpoint takes longer
/// than the work since the previous checkpoint, so that the recovery plan takes the previous one.
fn case_for(point: &str) -> TestProgram {
    if ["ship.half", "whole.begin"].contains(&point) {
        programs::large_heat2d()
    } else {
        programs::heat2d()
    }
}

/// Kills a worker at a fault point in each of several jobs, which must recover.
///
/// `epoch` is empty or selects a passage of the point. `workers` returns the workers to kill at the
/// point with this index.
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

/// Fault points of a checkpoint; the first are those that need much data.
const CHECKPOINT_POINTS: &[&str] = &[
    "ship.half",
    "whole.begin",
    "cut.agreed",
    "commit.end",
    "cut.begin",
    "cut.end",
    "capture.end",
    "ship.begin",
    "ship.end",
];

fn all_workers(_: usize) -> Vec<u32> {
    (0..WORKERS).collect()
}

/// Returns one worker, or two with `make test-all`; they differ from point to point.
fn selected_workers(index: usize) -> Vec<u32> {
    let first = index as u32 % WORKERS;
    variants([first, (first + 1 + index as u32 % 2) % WORKERS], 1).collect()
}

#[test]
fn a_worker_may_die_at_any_point_of_a_checkpoint() {
    let points: Vec<&str> = variants(CHECKPOINT_POINTS.iter().copied(), 2).collect();
    die_at(&points, " epoch=3", "auto", selected_workers);
}

#[test]
#[ignore = "long: make sweep"]
fn every_worker_may_die_at_any_point_of_a_checkpoint() {
    die_at(CHECKPOINT_POINTS, " epoch=3", "pagemap", all_workers);
    die_at(CHECKPOINT_POINTS, " epoch=2", "compare", all_workers);
}

#[test]
fn a_worker_may_die_inside_a_checkpoint_in_compare_mode() {
    die_at(
        &["capture.end", "commit.end"],
        " epoch=3",
        "compare",
        |index| vec![index as u32 + 1],
    );
}

#[test]
fn a_worker_may_die_at_the_end_of_mpi_init_and_at_the_beginning_of_mpi_finalize() {
    die_at(
        &["init.end", "finalize.begin"],
        "",
        "auto",
        selected_workers,
    );
}

#[test]
fn a_failure_before_the_first_interval_rolls_back_to_mpi_init() {
    let case = programs::heat2d();
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

/// Stages of a recovery at whose ends a second worker is killed.
const RECOVERY_STAGES: &[&str] = &[
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
    for stage in RECOVERY_STAGES {
        // Worker 2 stores the replica of worker 1, so this replica is left when worker 3 is the
        // second to fail.
        let (first, second) = (1, 3);
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
                outcome.check(!outcome.takeovers().is_empty(), "no worker was replaced");
            },
        );
    }
    verdicts.assert_all_good();
}

/// A worker is killed while several posted receives match the same messages.
///
/// After the rollback, the receives are posted again in their original order, so that each gets the
/// message that it would have got (MPI 4.1, 3.5).
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
    // One third of the cuts occur between the cancellation of a receive and its completion.
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

/// A second process is killed while another one posts its receives again; the job recovers.
///
/// The survivor posts its receives again and the replacement is killed in the first variant. In the
/// second variant, the replacement posts its receives again and the survivor is killed.
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

/// Worker 1 has resumed after a restart, and is killed before worker 0 resumes.
///
/// Worker 0 still posts its receives again at that time. The restarted job recovers.
#[test]
fn a_worker_may_fail_while_another_one_restarts() {
    let make = || {
        Job::new(paths::test_program("posting"), &["600", "0"])
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

/// A message that is sent after a cut completes no receive at the cut.
///
/// The cut is at the entry of a broadcast, which its root leaves early to send the message. Worker
/// 1 has posted a matching receive before the cut, and is delayed before it drains its messages.
/// Then worker 2 is killed, and the root sends the message again after the rollback.
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
