//! `understudy run` in an allocation of Slurm.
//!
//! Hosts, slots and agents are those of the allocation.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs;
use ffi_tests::slurm_installation::Slurm;
use ffi_tests::{Job, Kill, Outcome, Trigger};

/// Four workers, and two spares, which are on the last of three hosts.
fn job() -> Job {
    programs::short_heat2d()
        .job()
        .workers(4)
        .spares(2)
        .hosts(&[2, 2, 2])
}

fn is_possible() -> bool {
    Slurm::is_there() && Hosts::are_possible()
}

/// Fails unless the output is that of an undisturbed run, and these workers were replaced.
#[track_caller]
fn assert_recovered(outcome: &Outcome, replaced: &[u32]) {
    let case = programs::short_heat2d();
    outcome.assert_success();
    outcome.assert_like_after(&native(job()), case.files, case.canonical);
    outcome.assert_replaced(replaced);
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_dies_in_an_allocation() {
    if !is_possible() {
        return;
    }
    let kill = Kill::at(2, Trigger::Lines(15));
    let outcome = job().in_allocation(&[]).kill(kill).run();
    assert_recovered(&outcome, &[2]);
}

/// Slurm would end the job, had understudy not taken the node out of the allocation.
#[test]
fn a_job_survives_the_loss_of_a_node_that_slurm_notices() {
    if !is_possible() {
        return;
    }
    let job = job().in_allocation(&[]);
    let outcome = job.lose_host(Trigger::Lines(15), 1).run();
    assert_recovered(&outcome, &[2, 3]);
    outcome.assert_line(&["was taken out of Slurm's job"]);
    let is_cancelled = outcome.stderr.contains("CANCELLED");
    outcome.check(!is_cancelled, "Slurm has ended steps of the job");
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_job_of_no_kill_survives_a_node_that_is_cut_off() {
    if !is_possible() {
        return;
    }
    let job = job().in_allocation(&["--no-kill"]);
    let outcome = job.cut_off_host(Trigger::Lines(15), 1).run();
    assert_recovered(&outcome, &[2, 3]);
}
