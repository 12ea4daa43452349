//! `understudy run` in an allocation of Slurm or Grid Engine.
//!
//! Hosts, slots and agents are those of the allocation.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs;
use ffi_tests::slurm_allocation::{Allocation, FIRST_NODE};
use ffi_tests::slurm_installation::Slurm;
use ffi_tests::{Job, Outcome, Trigger, grid_engine, paths};

const SECOND_NODE: usize = FIRST_NODE + 1;

/// Four workers on two of three nodes, and two spares on the third one.
fn job() -> Job {
    let job = programs::short_heat2d().job();
    job.workers(4).spares(2).hosts(&[0, 2, 2, 2])
}

fn is_possible() -> bool {
    Slurm::is_there() && Hosts::are_possible()
}

/// Fails unless the output is that of an undisturbed run, and these workers were replaced.
#[track_caller]
fn assert_recovered(outcome: &Outcome, replaced: &[u32]) {
    let case = programs::short_heat2d();
    outcome.assert_success();
    outcome.assert_like_after(&native(case.job()), case.files, case.canonical);
    outcome.assert_replaced(replaced);
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_batch_job_of_no_kill_survives_a_node_that_is_cut_off() {
    if !is_possible() {
        return;
    }
    let job = job().in_allocation(Allocation::batch(&["--nodes=3", "--no-kill"]), &[]);
    let outcome = job
        .env("UNDERSTUDY_NODE_TIMEOUT", "5s")
        .cut_off_host(Trigger::Lines(15), SECOND_NODE)
        .run();
    assert_recovered(&outcome, &[2, 3]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_job_of_grid_engine_survives_the_loss_of_a_node() {
    if !grid_engine::is_there() || !Hosts::are_possible() {
        return;
    }
    let job = job().in_grid_engine();
    let outcome = job.lose_host(Trigger::Lines(15), SECOND_NODE).run();
    assert_recovered(&outcome, &[2, 3]);
}

/// The launcher runs on no node of the allocation.
#[test]
#[ignore = "a variant: make test-all"]
fn an_interactive_job_survives_the_loss_of_its_first_node() {
    if !is_possible() {
        return;
    }
    let job = job().in_allocation(Allocation::interactive(&["--nodes=3"]), &[]);
    let mut outcome = job.lose_host(Trigger::Lines(15), FIRST_NODE).run();
    remove_repeated_lines(&mut outcome);
    assert_recovered(&outcome, &[0, 1]);
}

/// Six nodes with one task each: four workers and two spares.
fn job_of_six_nodes() -> Job {
    let job = programs::short_heat2d().job().workers(4).spares(2);
    job.hosts(&[0, 1, 1, 1, 1, 1, 1])
        .in_allocation(Allocation::batch(&["--nodes=6", "--no-requeue"]), &[])
}

const AFTER_SOME_LINES: Trigger = Trigger::Lines(15);

/// Replicas are on another switch, and so are the spares.
#[test]
#[ignore = "a variant: make test-all"]
fn a_batch_job_survives_the_loss_of_a_switch() {
    if !is_possible() {
        return;
    }
    let job = job_of_six_nodes().racks(&[0, 1, 1, 2, 2, 3, 3]);
    let lost = [FIRST_NODE + 2, FIRST_NODE + 3];
    assert_recovered(&job.lose_hosts(AFTER_SOME_LINES, &lost).run(), &[2, 3]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_batch_job_with_two_replicas_survives_the_loss_of_two_nodes() {
    if !is_possible() {
        return;
    }
    let job = job_of_six_nodes().env("UNDERSTUDY_COPIES", "2");
    let lost = [FIRST_NODE + 1, FIRST_NODE + 2];
    assert_recovered(&job.lose_hosts(AFTER_SOME_LINES, &lost).run(), &[1, 2]);
}

/// All workers print, also those of the lost node.
#[test]
#[ignore = "a variant: make test-all"]
fn the_output_file_of_a_batch_job_that_loses_a_node_has_every_line_once() {
    if !is_possible() {
        return;
    }
    let chatter = || Job::new(paths::test_program("chatter"), &["600", "5000"]).workers(4);
    let job = chatter().spares(2).hosts(&[0, 2, 2, 2]);
    let job = job.in_allocation(Allocation::batch(&["--nodes=3"]), &["--output", "out.txt"]);
    let at = Trigger::Commit { rank: 0, epoch: 4 };
    let mut outcome = job.lose_host(at, SECOND_NODE).run();
    outcome.assert_success();
    outcome.assert_replaced(&[2, 3]);
    outcome.check(outcome.stdout.is_empty(), "not all output is in the file");
    outcome.stdout = outcome.file("out.txt").unwrap_or_default();
    outcome.assert_same_lines(&native(chatter()));
    outcome.assert_nothing_left();
}

/// Removes lines that were printed again: worker 0, which prints, is lost with its node.
fn remove_repeated_lines(outcome: &mut Outcome) {
    let mut seen = std::collections::BTreeSet::new();
    let lines = outcome.stdout.split_inclusive(|&byte| byte == b'\n');
    let lines: Vec<&[u8]> = lines.filter(|line| seen.insert(*line)).collect();
    outcome.stdout = lines.concat();
}

/// Iterations of a job that is stopped by Slurm.
const ITERATIONS: &str = "6000";
/// Iterations of a job that takes longer than its time limit.
const MANY_ITERATIONS: &str = "40000";

/// Four workers on two of three nodes, with checkpoints on disk.
fn requeued_job(
    iterations: &str,
    allocation: Allocation,
    run_options: &'static [&'static str],
) -> Job {
    undisturbed_job(iterations)
        .spares(0)
        .interval("0.2s")
        .disk()
        .hosts(&[0, 2, 2, 2])
        .env("UNDERSTUDY_RESTART", "auto")
        .in_allocation(allocation, run_options)
}

fn undisturbed_job(iterations: &str) -> Job {
    programs::heat2d_of("300", iterations, "250").workers(4)
}

/// Fails unless the outputs of all starts are together that of an undisturbed run.
#[track_caller]
fn assert_continued(outcome: &Outcome, iterations: &str) {
    outcome.assert_success();
    outcome.assert_line(&["[restarted]"]);
    let files = programs::heat2d().files;
    outcome.assert_like(&native(undisturbed_job(iterations)), files);
    outcome.assert_nothing_left();
}

const ON_DISK: Trigger = Trigger::OnDisk {
    workers: 4,
    epoch: 2,
};

/// The batch script, and with it the launcher, runs on the first node.
#[test]
#[ignore = "a variant: make test-all"]
fn a_batch_job_that_loses_its_first_node_is_requeued_and_continues() {
    if !is_possible() {
        return;
    }
    let job = requeued_job(
        ITERATIONS,
        Allocation::batch(&["--nodes=2", "--requeue"]),
        &[],
    );
    let mut outcome = job.lose_host(ON_DISK, FIRST_NODE).run();
    remove_repeated_lines(&mut outcome);
    assert_continued(&outcome, ITERATIONS);
    let is_warned = outcome.stderr.contains("[first-host-not-requeued]");
    outcome.check(!is_warned, "a job that is requeued and continues is warned");
}

/// Slurm sends SIGTERM to the processes of steps, and gives the nodes to another job.
#[test]
#[ignore = "a variant: make test-all"]
fn a_preempted_batch_job_is_requeued_and_continues() {
    if !is_possible() {
        return;
    }
    let run_options = &["--checkpoint-on", "TERM", "--requeue"];
    let job = requeued_job(
        ITERATIONS,
        Allocation::batch(&["--nodes=3", "--requeue"]),
        run_options,
    );
    let urgent = &[
        "sbatch",
        "--partition=urgent",
        "--nodes=3",
        "--output=/dev/null",
        "--wrap=true",
    ];
    let outcome = job
        .order_slurm(ON_DISK, urgent, "[stopped-with-checkpoint]")
        .run();
    assert_continued(&outcome, ITERATIONS);
}

/// Slurm states the end of the job, at which nothing would be left.
#[test]
#[ignore = "a variant: make test-all"]
fn a_batch_job_stops_before_its_time_limit_and_is_requeued() {
    if !is_possible() {
        return;
    }
    let run_options = &["--time-limit", "auto", "--requeue"];
    let allocation = Allocation::batch(&["--nodes=2", "--requeue"]).time_limit(8);
    let outcome = requeued_job(MANY_ITERATIONS, allocation, run_options).run();
    outcome.assert_line(&["[stopped-with-checkpoint]", "time limit"]);
    assert_continued(&outcome, MANY_ITERATIONS);
}
