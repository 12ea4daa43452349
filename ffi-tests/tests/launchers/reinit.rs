//! Jobs under `ckptd launch`: a reinit of MPI follows each failure.
//!
//! The MPI library needs no fault-tolerance functions.

use ffi_tests::programs::heat2d;
use ffi_tests::{Job, Kill, Launcher, Trigger, variants};
use understudy_formats::events::RecoveryStage;

fn job() -> Job {
    heat2d().job().launched_by(Launcher::Ckptd)
}

#[test]
fn a_spare_replaces_a_failed_worker() {
    let outcome = heat2d().assert_undisturbed(job().kill(Kill::at(2, Trigger::Lines(15))));
    outcome.check(outcome.takeovers() == [2], "not only worker 2 was replaced");
}

#[test]
fn without_a_spare_a_new_process_replaces_a_worker() {
    let outcome =
        heat2d().assert_undisturbed(job().spares(0).kill(Kill::at(1, Trigger::Lines(15))));
    outcome.check(outcome.takeovers() == [1], "not only worker 1 was replaced");
}

#[test]
fn one_after_the_other_is_replaced_without_a_spare() {
    let kills = (0..4).map(|rank| Kill::at(rank, Trigger::Lines(8 * (rank as usize + 1))));
    heat2d().assert_undisturbed(kills.fold(job().spares(0), Job::kill));
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_die_before_and_in_mpi_init() {
    let points = [
        "boot.begin",
        "init.begin",
        "commit.begin epoch=1",
        "boot.end",
        "cut.begin epoch=1",
        "capture.end epoch=1",
        "init.end",
    ];
    for point in variants(points, 2) {
        heat2d().assert_undisturbed(job().fault(&format!("kill rank=1 at={point}")));
    }
}

#[test]
fn a_second_process_may_fail_at_any_stage_of_a_reinit() {
    for stage in variants(RecoveryStage::ALL.into_iter().rev(), 1) {
        // Worker 3 stores no replica of worker 1, nor vice versa.
        let fault = format!("kill rank=1 at=commit.end epoch=3; kill rank=3 at={stage}.end");
        heat2d().assert_undisturbed(job().fault(&fault));
    }
}
