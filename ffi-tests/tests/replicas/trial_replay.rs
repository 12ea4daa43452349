//! Trial replays: the set-up phases of workers are replayed, and their pages are compared.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram, prints, setup};
use ffi_tests::{Job, Outcome, paths};
use understudy_formats::events::Kind;

const WORKERS: u32 = 4;

/// Result of a trial replay.
#[derive(Debug)]
struct TrialReplay {
    worker: u32,
    pages: u64,
    different: u64,
    failure: Option<String>,
}

fn trial_replays(outcome: &Outcome) -> Vec<TrialReplay> {
    let events = (0..WORKERS).flat_map(|rank| outcome.events(rank));
    let mut found: Vec<_> = events
        .filter_map(|record| match record.kind {
            Kind::TrialReplay {
                worker,
                pages,
                different,
                failure,
                ..
            } => Some(TrialReplay {
                worker: worker.0,
                pages,
                different,
                failure,
            }),
            _ => None,
        })
        .collect();
    found.sort_by_key(|trial| trial.worker);
    found
}

/// Runs a job with trial replays; fails unless its output is undisturbed.
///
/// Each worker must have had exactly one trial replay.
fn run_trial_replays(case: &TestProgram, interval: &str) -> Vec<TrialReplay> {
    let outcome = case
        .job()
        .interval(interval)
        .env("UNDERSTUDY_REHEARSE", "all")
        .run();
    outcome.assert_success();
    outcome.assert_like_after(&native(case.job()), case.files, case.canonical);
    let trials = trial_replays(&outcome);
    println!("{}: {trials:?}", case.name);
    let workers: Vec<u32> = trials.iter().map(|trial| trial.worker).collect();
    outcome.check(
        workers == (0..WORKERS).collect::<Vec<_>>(),
        &format!("not exactly one trial replay for each worker: {workers:?}"),
    );
    trials
}

/// Fails unless all pages of all trial replays are equal.
fn assert_all_equal(case: &TestProgram) {
    for one in run_trial_replays(case, "30calls") {
        assert_eq!(one.failure, None, "worker {}", one.worker);
        assert!(one.pages > 50, "{} pages were compared", one.pages);
        assert_eq!(one.different, 0, "worker {}", one.worker);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn heat2d_is_rebuilt_from_its_journal() {
    assert_all_equal(&programs::heat2d());
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_and_its_library_are_rebuilt_from_their_journal() {
    assert_all_equal(&programs::cg());
    assert_all_equal(&programs::cg_shared());
}

#[test]
#[ignore = "a variant: make test-all"]
fn sem_is_rebuilt_from_its_journal() {
    assert_all_equal(&programs::sem());
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_sample_of_the_workers_may_have_trial_replays() {
    let case = programs::heat2d();
    for setting in ["image", "replay"] {
        let outcome = case
            .job()
            .interval("30calls")
            .env("UNDERSTUDY_REHEARSE", "sample")
            .env("UNDERSTUDY_STATIC", setting)
            .env("UNDERSTUDY_BUDDY_OFFSET", "1")
            .fault("kill rank=1 at=cut.begin epoch=20; kill rank=0 at=cut.begin epoch=30")
            .spares(2)
            .run();
        outcome.assert_success();
        outcome.assert_like(&native(case.job()), case.files);
        outcome.assert_taken_over(&[1, 0]);
        let records = |rank| outcome.events(rank).into_iter().map(|record| record.kind);
        let all = || outcome.event_ranks().into_iter().flat_map(records);
        let trials: Vec<u32> = all()
            .filter_map(|kind| match kind {
                Kind::TrialReplay { worker, .. } => Some(worker.0),
                _ => None,
            })
            .collect();
        // After a failure the trial replay may be repeated.
        let is_sample = !trials.is_empty() && trials.iter().all(|&worker| worker == 0);
        outcome.check(is_sample, &format!("trials: {trials:?}"));
        let is_other =
            |kind: Kind| matches!(kind, Kind::ReplicaReduced { worker, .. } if worker.0 != 0);
        outcome.check(
            !all().any(is_other),
            "a replica was reduced although nothing is proved of it",
        );
    }
}

/// Rules name the end of the set-up phase; trial replays find equal pages.
///
/// No interval ends in these runs: cuts are taken because the phase ends.
#[test]
#[ignore = "a variant: make test-all"]
fn the_end_of_the_phase_may_be_named() {
    let heat2d =
        ["auto", "MPI_Allreduce#5", "function:relax"].map(|rule| (programs::longer_heat2d(), rule));
    // The function is a C++ function in an unnamed namespace.
    let cg = (programs::cg(), "function:run");
    for (case, rule) in heat2d.into_iter().chain([cg]) {
        let outcome = case
            .job()
            .interval("1h")
            .env("UNDERSTUDY_REHEARSE", "all")
            .env("UNDERSTUDY_INIT_END", rule)
            .run();
        outcome.assert_success();
        outcome.assert_like(&native(case.job()), case.files);
        let trials = trial_replays(&outcome);
        println!("{rule}: {trials:?}");
        outcome.check(
            trials.len() == WORKERS as usize,
            "not every worker had a trial replay",
        );
        let is_equal = |one: &TrialReplay| one.failure.is_none() && one.different == 0;
        outcome.check(trials.iter().all(is_equal), "pages differ");
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn lammps_is_rebuilt_but_for_the_numbers_of_its_files() {
    let Some(case) = programs::lammps() else {
        return;
    };
    for one in run_trial_replays(&case, "6calls") {
        assert_eq!(one.failure, None, "worker {}", one.worker);
        assert!(
            one.different <= 8,
            "{} of {} pages differ",
            one.different,
            one.pages
        );
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_trial_replay_has_no_effects_and_finds_differences() {
    let case = setup(|| Job::new(paths::test_program("setup"), &["3000"]));
    for one in run_trial_replays(&case, "20calls") {
        assert_eq!(one.failure, None, "worker {}", one.worker);
        // The structure, with 12 KiB of random bytes, takes four pages; a few other pages may
        // contain descriptor numbers.
        assert!(
            (4..12).contains(&one.different),
            "{} pages differ",
            one.different
        );
    }
}

/// A trial replay fails at openat2(2) (system call 437) and has no effect on files.
///
/// The call can truncate a file like open(2), and libc never makes it.
#[test]
#[ignore = "a variant: make test-all"]
fn a_trial_replay_makes_only_calls_that_it_can_judge() {
    let case = TestProgram {
        files: &["made.0", "made.1", "made.2", "made.3"],
        ..prints("calls", || {
            Job::new(paths::test_program("phase"), &["3000", "calls"])
        })
    };
    for one in run_trial_replays(&case, "20calls") {
        let why = one.failure.unwrap_or_default();
        assert!(
            why.contains("system call 437"),
            "worker {}: {why}",
            one.worker
        );
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_setup_that_starts_processes_is_not_replayed() {
    let case = setup(|| Job::new(paths::test_program("setup"), &["3000", "process"]));
    for one in run_trial_replays(&case, "20calls") {
        let why = one.failure.unwrap_or_default();
        assert!(why.contains("system call"), "worker {}: {why}", one.worker);
    }
}
