//! Failures of the node manager: a guardian starts another manager.
//!
//! The new manager receives the state of the job from the guardians. The job ends only if each new
//! manager dies at once.

use ffi_tests::living_processes::{living_and_lines, manager};
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, HEAT2D, heat2d};
use ffi_tests::{Job, Launcher, Outcome, Random, paths, processes, variants};
use std::time::{Duration, Instant};

/// Part of the line that a guardian prints when it starts another manager.
const REPLACEMENT_LINE: &str = "[manager-replaced]";

fn job() -> Job {
    heat2d().job().launched_by(Launcher::Mpirun)
}

/// Makes a job whose manager is killed at each of these numbers of printed lines.
fn killed_at(job: Job, lines: &'static [usize]) -> Job {
    let mut next = 0;
    job.watch(move |first| {
        if living_and_lines(first, "heat2d").1 >= lines[next]
            && manager(first).is_some_and(processes::kill)
        {
            next += 1;
        }
        next == lines.len()
    })
}

/// Number of managers that have replaced failed managers.
fn replaced_managers(outcome: &Outcome) -> usize {
    outcome.stderr.matches(REPLACEMENT_LINE).count()
}

/// Fails unless the output is undisturbed, and `count` managers have replaced failed ones.
#[track_caller]
fn assert_survived(job: Job, count: usize) -> Outcome {
    let outcome = heat2d().assert_undisturbed(job);
    let found = replaced_managers(&outcome);
    outcome.check(
        found == count,
        &format!("{found} managers were started, not {count}"),
    );
    outcome
}

#[test]
fn the_manager_may_fail_in_mid_run() {
    let kills = [
        (Launcher::Mpirun, &[9, 18, 27][..]),
        (Launcher::Ckptd, &[15]),
    ];
    for (launcher, lines) in variants(kills, 1) {
        let outcome = assert_survived(killed_at(job().launched_by(launcher), lines), lines.len());
        outcome.check(outcome.takeovers().is_empty(), "a worker was replaced");
    }
}

#[test]
fn a_worker_may_fail_together_with_the_manager() {
    for spares in variants([1, 0], 1) {
        let fault = "kill-manager rank=2 at=commit.end epoch=3; kill rank=2 at=commit.end epoch=3";
        let outcome = assert_survived(job().spares(spares).fault(fault), 1);
        outcome.check(
            outcome.takeovers() == [2],
            "not exactly worker 2 was replaced",
        );
    }
}

#[test]
fn all_workers_may_fail_together_with_the_manager() {
    let all = [0, 1, 2, 3].map(|rank| format!("kill rank={rank} at=commit.end epoch=3"));
    let fault = format!(
        "kill-manager rank=1 at=commit.end epoch=3; {}",
        all.join("; ")
    );
    assert_survived(job().spares(0).fault(&fault), 1);
}

#[test]
fn the_only_worker_may_fail_together_with_the_manager() {
    let fault = "kill-manager rank=0 at=commit.end epoch=3; kill rank=0 at=commit.end epoch=3";
    let outcome = assert_survived(job().workers(1).spares(0).fault(fault), 1);
    outcome.check(
        outcome.takeovers() == [0],
        "not exactly worker 0 was replaced",
    );
}

#[test]
fn the_manager_may_fail_before_mpi_init_returns() {
    // The first passage of `cut.begin` is in the first checkpoint, committed at `init.end`.
    for point in variants(["commit.begin epoch=1", "cut.begin", "init.end"], 1) {
        assert_survived(job().fault(&format!("kill-manager rank=1 at={point}")), 1);
    }
    // The ranks have been started; they are in MPI_Init or have not called it yet.
    assert_survived(
        job().watch(|first| manager(first).is_some_and(processes::kill)),
        1,
    );
}

#[test]
fn the_manager_and_its_replacement_may_fail_in_a_reinit() {
    let points = [
        ("reset.begin", "load.begin"),
        ("drain.begin", "resume.begin"),
    ];
    for (first, second) in variants(points, 1) {
        // A rank reaches the second fault point only after MPI was initialised again, which needs a
        // new manager.
        let fault = format!(
            "kill rank=1 at=commit.end epoch=3; kill-manager rank=0 at={first}; kill-manager \
             rank=2 at={second}"
        );
        let outcome = assert_survived(job().fault(&fault), 2);
        outcome.check(
            outcome.takeovers() == [1],
            "not exactly worker 1 was replaced",
        );
    }
}

#[test]
fn the_manager_may_fail_in_mpi_finalize() {
    for point in variants(["finalize.begin", "finalize.agreed"], 1) {
        assert_survived(job().fault(&format!("kill-manager rank=1 at={point}")), 1);
    }
}

#[test]
fn managers_that_fail_at_once_end_the_job_with_a_message() {
    let outcome = job()
        .watch(|first| {
            if living_and_lines(first, "heat2d").1 >= 8 {
                manager(first).map(processes::kill);
            }
            false
        })
        .run();
    let has_failed = outcome.status.is_some_and(|status| !status.success());
    outcome.check(has_failed, "the job hangs, or has ended with status 0");
    let reports = outcome.stderr.matches("[managers-died]").count();
    outcome.check(reports == 1, "not exactly one line gives the cause");
    outcome.assert_nothing_left();
}

#[test]
fn the_manager_may_fail_in_a_job_of_mpich() {
    let Some(program) = paths::mpich_example("heat2d") else {
        return;
    };
    let of_mpich = || {
        Job::new(&program, &HEAT2D)
            .workers(2)
            .interval("20calls")
            .of_mpich()
    };
    let alone = native(of_mpich());
    for point in variants(["agree.end", "commit.begin epoch=1", "finalize.begin"], 1) {
        let fault = format!("kill rank=1 at=commit.end epoch=2; kill-manager rank=0 at={point}");
        let outcome = of_mpich().fault(&fault).run();
        outcome.assert_success();
        outcome.assert_like(&alone, heat2d().files);
        outcome.assert_nothing_left();
        outcome.check(
            replaced_managers(&outcome) == 1,
            "not exactly one manager was started",
        );
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn processes_and_managers_may_be_killed_at_random() {
    let case = programs::longer_heat2d();
    for (spares, launcher) in [(1, Launcher::Mpirun), (0, Launcher::Ckptd)] {
        let mut random = Random::announced("manager");
        let began = Instant::now();
        let (mut next, mut seen, mut kills) = (began, 0, 0);
        let job = case.job().launched_by(launcher).spares(spares);
        let outcome = case.assert_undisturbed(job.watch(move |first| {
            let (living, printed) = living_and_lines(first, "heat2d");
            // The job ends if its manager fails ten times before the processes continue.
            if printed >= 50 || kills > 5 || began.elapsed() > Duration::from_secs(10) {
                return true;
            }
            if Instant::now() < next || printed < 2 || living.is_empty() {
                return false;
            }
            kills = if printed > seen { 0 } else { kills + 1 };
            seen = printed;
            next = Instant::now() + Duration::from_millis(150 + random.below(300));
            let (kills_manager, kills_other) = match random.below(3) {
                0 => (true, false),
                1 => (false, true),
                _ => (true, true),
            };
            if kills_manager {
                manager(first).map(processes::kill);
            }
            if kills_other {
                let victim = random.below(living.len() as u64) as usize;
                living.values().nth(victim).map(|&pid| processes::kill(pid));
            }
            false
        }));
        outcome.check(replaced_managers(&outcome) > 0, "no manager was killed");
    }
}
