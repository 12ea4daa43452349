//! Jobs under ckptd's own launcher: after a death MPI is initialised anew, whatever the library can do by itself.

use ckptd::events::RecoveryStage;
use ffi_tests::programs::heat2d;
use ffi_tests::{Job, Kill, Launcher, Trigger};
use std::time::Duration;

fn job() -> Job {
    heat2d()
        .job()
        .launched_by(Launcher::Ckptd)
        .limit(Duration::from_secs(60))
}

#[test]
fn a_spare_takes_the_part_of_a_dead_worker() {
    let outcome = heat2d().assert_undisturbed(job().kill(Kill::at(2, Trigger::Lines(15))));
    outcome.check(outcome.takeovers() == [2], "another part was taken");
}

#[test]
fn without_a_spare_a_new_process_takes_the_part() {
    let outcome = heat2d().assert_undisturbed(job().spares(0).kill(Kill::at(1, Trigger::Lines(15))));
    outcome.check(outcome.takeovers() == [1], "another part was taken");
}

#[test]
fn one_after_the_other_is_replaced_without_a_spare() {
    let kills = (0..4).map(|rank| Kill::at(rank, Trigger::Lines(8 * (rank as usize + 1))));
    heat2d().assert_undisturbed(kills.fold(job().spares(0), Job::kill));
}

#[test]
fn a_worker_may_die_before_and_in_mpi_init() {
    for point in [
        "boot.begin",
        "boot.end",
        "init.begin",
        "cut.begin epoch=0",
        "capture.end epoch=1",
        "commit.begin epoch=1",
        "init.end",
    ] {
        heat2d().assert_undisturbed(job().fault(&format!("kill rank=1 at={point}")));
    }
}

#[test]
fn a_second_process_may_die_at_any_stage_of_a_renewal() {
    for stage in RecoveryStage::ALL {
        // Worker 3 keeps no copy of worker 1's, nor the other way round.
        let fault = format!("kill rank=1 at=commit.end epoch=3; kill rank=3 at={stage}.end");
        heat2d().assert_undisturbed(job().fault(&fault));
    }
}

#[test]
fn mpi_is_initialised_a_hundred_times_in_one_job() {
    // Before the first commit is known to all, the job would start again.
    let renewals: Vec<String> = (2..200)
        .map(|epoch| format!("renew rank=0 at=commit.end epoch={epoch}"))
        .collect();
    let outcome = heat2d().assert_undisturbed(job().interval("40calls").fault(&renewals.join("; ")));
    let count = outcome.recoveries();
    outcome.check(count >= 100, &format!("MPI was initialised anew {count} times only"));
}
