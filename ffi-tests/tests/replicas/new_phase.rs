//! Static data that are set up again.
//!
//! The program opens another set-up phase with MPI_Pcontrol. The set-up log of that phase replaces
//! the earlier log.

use ffi_tests::programs::{self, TestProgram};
use ffi_tests::reduced_replicas::{self, WORKERS, assert_like_undisturbed, rebuilt};
use ffi_tests::{Job, Kill, Outcome, Trigger, Verdicts, paths, variants};

/// Pages of the table at first (100000 doubles); each set-up doubles the number.
const FIRST_PAGES: u64 = 195;

fn adapt() -> TestProgram {
    programs::prints("adapt", || {
        Job::new(paths::test_program("adapt"), &["1500"])
    })
}

fn adapt_twice() -> TestProgram {
    programs::prints("adapt", || {
        Job::new(paths::test_program("adapt"), &["1500", "2"])
    })
}

fn job(case: &TestProgram) -> Job {
    reduced_replicas::job(case)
        .env("UNDERSTUDY_INIT_END", "pcontrol:1")
        .fault(&reduced_replicas::pauses((10..=150).step_by(10)))
}

/// Moment when replicas of all workers have been reduced for this number of phases.
fn reduced(times: usize) -> Trigger {
    Trigger::Reduced {
        workers: WORKERS,
        times,
    }
}

fn assert_recovered(outcome: &Outcome, case: &TestProgram, worker: u32) {
    assert_like_undisturbed(outcome, case);
    outcome.assert_taken_over(&[worker]);
}

#[test]
fn what_is_set_up_anew_is_rebuilt() {
    let (case, twice) = (adapt(), adapt_twice());
    let mut verdicts = Verdicts::default();
    let deaths = [
        (&case, 2, 2 * FIRST_PAGES, 0),
        (&twice, 3, 4 * FIRST_PAGES, 2),
        (&case, 1, FIRST_PAGES, 2),
        (&twice, 3, 4 * FIRST_PAGES, 0),
        (&case, 2, 2 * FIRST_PAGES, 2),
        (&case, 1, FIRST_PAGES, 0),
    ];
    for (case, times, pages, worker) in variants(deaths, 1) {
        let outcome = job(case).kill(Kill::at(worker, reduced(times))).run();
        let made = rebuilt(&outcome, WORKERS);
        println!("phase {times}, worker {worker}: {made} pages rebuilt");
        verdicts.judge(&format!("phase {times}, worker {worker}"), || {
            assert_recovered(&outcome, case, worker);
            outcome.check(made >= pages, &format!("only {made} pages were rebuilt"));
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_die_in_a_new_phase() {
    let case = adapt();
    let mut verdicts = Verdicts::default();
    for place in [
        "phase.begin",
        "phase.begin epoch=2",
        "phase.end",
        "call:1560",
    ] {
        let at = |worker: u32| format!("kill rank={worker} at={place}");
        for worker in [0, 3] {
            let outcome = job(&case).fault(&at(worker)).run();
            let is_met = !outcome.faults().is_empty();
            verdicts.judge(&at(worker), || {
                assert_like_undisturbed(&outcome, &case);
                if is_met {
                    outcome.assert_taken_over(&[worker]);
                }
                outcome.check(
                    is_met || place.contains("epoch=2"),
                    "no rank has reached the fault point",
                );
            });
        }
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn without_new_phases_replicas_keep_the_second_set_up() {
    let case = adapt();
    let quiet = job(&case).env("UNDERSTUDY_NEW_PHASE", "off");
    let outcome = quiet
        .kill(Kill::at(1, Trigger::Commit { rank: 1, epoch: 80 }))
        .run();
    assert_recovered(&outcome, &case, 1);
    outcome.check(
        rebuilt(&outcome, WORKERS) < 2 * FIRST_PAGES,
        "pages of the second set-up were rebuilt",
    );
}
