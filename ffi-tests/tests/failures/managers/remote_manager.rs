//! Failures of node managers of hosts without the leader.
//!
//! A guardian starts another manager, and all nodes report their processes to the leader again.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Kill, Launcher, Outcome, Trigger, Verdicts, fault_at_commit, paths};

const FILES: [&str; 4] = ["diary.0", "diary.1", "diary.2", "diary.3"];

/// A program of which no rank may run twice, on three hosts.
fn diaries() -> TestProgram {
    TestProgram {
        name: "diaries",
        tail: 0,
        files: &FILES,
        make: || Job::new(paths::test_program("diaries"), &["20", "20"]).hosts(&[2, 2, 1]),
        ..programs::heat2d()
    }
}

/// Fails unless only these workers were replaced, and the output is undisturbed.
#[track_caller]
fn assert_survived(outcome: &Outcome, replaced: &[u32]) {
    outcome.assert_success();
    outcome.assert_like(&native(diaries().job()), &FILES);
    outcome.assert_taken_over(replaced);
    outcome.assert_nothing_left();
    outcome.assert_line(&["[manager-replaced]"]);
    outcome.check(
        !outcome.stderr.contains("is lost"),
        "a host has counted as lost",
    );
}

fn killed_on(job: Job, host: usize) -> Job {
    job.disturb_hosts(Trigger::Lines(3), move |hosts| hosts.kill_manager(host))
}

#[test]
fn the_manager_of_another_host_may_be_killed() {
    if !Hosts::are_possible() {
        return;
    }
    let job = diaries().job().launched_by(Launcher::Ckptd);
    assert_survived(&killed_on(job, 1).run(), &[]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn managers_of_all_other_hosts_may_be_killed_under_each_launcher() {
    if !Hosts::are_possible() {
        return;
    }
    let mut verdicts = Verdicts::default();
    for launcher in [Launcher::Ckptd, Launcher::Mpirun] {
        let job = diaries().job().launched_by(launcher);
        let job = job.disturb_hosts(Trigger::Lines(3), |hosts| {
            hosts.kill_manager(1) && hosts.kill_manager(2)
        });
        let outcome = job.run();
        verdicts.judge(&format!("{launcher:?}"), || assert_survived(&outcome, &[]));
    }
    verdicts.assert_all_good();
}

/// The manager is killed in a start, a checkpoint, a recovery or the end.
#[test]
#[ignore = "a variant: make test-all"]
fn the_manager_of_a_host_may_fail_at_any_moment() {
    if !Hosts::are_possible() {
        return;
    }
    let alone = ["init.end", "cut.begin", "commit.begin", "finalize.begin"];
    let recovery = ["reset.begin", "load.begin", "drain.begin", "resume.begin"];
    let faults = alone.map(|point| (format!("kill-manager rank=2 at={point}"), &[][..]));
    let recovery = recovery.map(|point| {
        let kill = fault_at_commit(1, 3);
        let fault = format!("{kill}; kill-manager rank=2 at={point}");
        (fault, &[1][..])
    });
    let mut verdicts = Verdicts::default();
    for (fault, replaced) in faults.into_iter().chain(recovery) {
        let job = diaries().job().launched_by(Launcher::Ckptd);
        let outcome = job.fault(&fault).run();
        verdicts.judge(&fault, || assert_survived(&outcome, replaced));
    }
    verdicts.assert_all_good();
}

/// The worker is on the host of the manager, or on another one.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_fail_with_the_manager_of_a_host() {
    if !Hosts::are_possible() {
        return;
    }
    let mut verdicts = Verdicts::default();
    for worker in [0, 2, 3] {
        let job = diaries().job().launched_by(Launcher::Ckptd);
        let job = job.kill(Kill::at(worker, Trigger::Lines(3)));
        let outcome = killed_on(job, 1).run();
        verdicts.judge(&format!("worker {worker}"), || {
            assert_survived(&outcome, &[worker]);
        });
    }
    verdicts.assert_all_good();
}
