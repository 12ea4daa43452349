//! Copies without static data: what a program sets up once is rebuilt by replaying its initialisation phase.

use ffi_tests::programs::{self, Case, setup};
use ffi_tests::thin::{LOST, THIN, WORKERS, everyone_dies, job, like_undisturbed, rebuilt, thinned};
use ffi_tests::{Job, Kill, Trigger, Verdicts, place};
use std::time::Duration;

#[test]
fn heat2d_is_recovered_from_thin_copies() {
    everyone_dies(&programs::heat2d(), 30);
}

#[test]
fn cg_and_its_library_are_recovered_from_thin_copies() {
    everyone_dies(&programs::cg(), 200);
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_with_a_shared_library_is_recovered_from_thin_copies() {
    everyone_dies(&programs::cg_shared(), 200);
}

#[test]
#[ignore = "a variant: make test-all"]
fn sem_is_recovered_from_thin_copies() {
    everyone_dies(&programs::sem(), 400);
}

#[test]
#[ignore = "a variant: make test-all"]
fn lammps_is_recovered_from_thin_copies() {
    if let Some(case) = programs::lammps() {
        everyone_dies(&case, 100);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn two_workers_may_die_at_once() {
    let case = programs::heat2d();
    let outcome = job(&case)
        .spares(2)
        .kill(Kill::at(0, THIN))
        .kill(Kill::at(2, THIN))
        .run();
    like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[0, 2]);
    for spare in [WORKERS, WORKERS + 1] {
        outcome.check(rebuilt(&outcome, spare) > 30, "nothing was rebuilt");
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn an_understudy_may_die_in_its_turn() {
    let case = programs::heat2d();
    let outcome = job(&case)
        .spares(2)
        .kill(Kill::at(1, THIN))
        .kill(
            Kill::at(
                WORKERS,
                Trigger::Resume {
                    rank: WORKERS,
                    recovery: 1,
                },
            )
            .after(Duration::from_millis(40)),
        )
        .run();
    like_undisturbed(&outcome, &case);
    let pages = [WORKERS, WORKERS + 1].map(|spare| rebuilt(&outcome, spare));
    outcome.check(
        pages.iter().all(|&pages| pages > 30),
        &format!("pages rebuilt: {pages:?}"),
    );
}

#[test]
fn another_process_may_die_while_static_data_are_rebuilt() {
    let case = programs::heat2d();
    let mut verdicts = Verdicts::default();
    // The understudy, the holder of the copy, and another worker.
    for rank in [WORKERS, 3, 0] {
        for stage in ["replace", "fetch", "load"] {
            let fault = format!("kill rank=2 at=cut.begin epoch=12; kill rank={rank} at={stage}");
            let outcome = job(&case).spares(2).fault(&fault).run();
            let lost = outcome
                .own_lines()
                .iter()
                .any(|line| line.contains("which held its only copy"));
            println!("{fault}: {:?}, lost {lost}", outcome.wall);
            verdicts.judge(&fault, || {
                if rank == 3 && lost {
                    outcome.check(
                        outcome.status.and_then(|status| status.code()) == Some(LOST),
                        "another status than that of a loss",
                    );
                } else {
                    like_undisturbed(&outcome, &case);
                }
            });
        }
    }
    verdicts.assert_all_good();
}

#[test]
fn what_is_not_the_same_twice_stays_in_the_copies() {
    everyone_dies(&setup(|| Job::new(place::test_program("setup"), &["20000"])), 100);
}

#[test]
fn what_cannot_be_replayed_stays_in_the_copies() {
    let case = setup(|| Job::new(place::test_program("setup"), &["20000", "process"]));
    let outcome = job(&case).fault("kill rank=1 at=cut.begin epoch=40").run();
    like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    outcome.check(thinned(&outcome, 1) == (0, 0), "the copy was thinned");
}

/// A program that reads its input when it sets up, and whose input is gone later.
fn reader() -> Case {
    let make = || Job::new(place::test_program("setup"), &["20000", "input"]).input("input", "0.5 0.25 0.125 0.0625\n");
    setup(make)
}

#[test]
fn input_that_has_changed_is_noticed() {
    let case = reader();
    let undisturbed = job(&case).kill(Kill::at(1, THIN)).run();
    like_undisturbed(&undisturbed, &case);
    let change = |job: Job| {
        let mut is_done = false;
        job.watch(move |ranks| {
            let work = std::path::PathBuf::from(format!("/proc/{}/cwd", ranks[&0].pid));
            let events = work.join("../events");
            if !is_done && THIN.has_come(&events, &events) {
                is_done = std::fs::write(work.join("input"), "0.5 0.25 0.125 0.5\n").is_ok()
                    && ffi_tests::processes::kill(ranks[&1].pid);
            }
            is_done
        })
    };
    let lost = change(job(&case)).run();
    let named = lost
        .own_lines()
        .iter()
        .any(|line| line.contains("static data cannot be rebuilt"));
    lost.check(named, "no line says what is wrong");
    lost.check(
        lost.status.and_then(|status| status.code()) == Some(LOST),
        "another status than that of a loss",
    );
    let from_disk = change(job(&case).disk()).run();
    like_undisturbed(&from_disk, &case);
}
