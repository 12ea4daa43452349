//! The set-up log: operations that it can record, and damaged logs.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, prints};
use ffi_tests::reduced_replicas::{
    ALL_REDUCED, WORKERS, assert_like_undisturbed, assert_lost, assert_workers_recover,
    elided_pages, job, rebuilt,
};
use ffi_tests::{Job, Kill, Outcome, Trigger, Verdicts, paths, run_directory, variants};
use std::process::Command;
use understudy_formats::events::Kind;

/// True if a process has reported that a set-up log is damaged.
fn has_refused_a_journal(outcome: &Outcome) -> bool {
    outcome
        .stderr
        .contains("its static data cannot be rebuilt: the set-up log is damaged")
}

#[test]
fn a_damaged_journal_is_never_replayed() {
    let case = programs::heat2d();
    let mut verdicts = Verdicts::default();
    for copy in variants(["half-journal", "journal"], 1) {
        // Worker 2 stores the reduced replica of worker 1. Without the fault `no-memfd`, a whole
        // replica in the persistent replica store of worker 1 could be used instead.
        let fault = format!("corrupt rank=2 at=thin.end copy={copy}; pretend no-memfd");
        let run = |job: Job, reduced: Trigger| job.fault(&fault).kill(Kill::at(1, reduced)).run();
        let lost = run(job(&case), ALL_REDUCED);
        verdicts.judge(&fault, || {
            let words = [
                "worker 1 (rank 1 on ",
                "its replica (checkpoint ",
                "at worker 2 ",
                "was not used",
            ];
            assert_lost(&lost, &words);
            lost.check(
                has_refused_a_journal(&lost),
                "no process has reported the damage",
            );
        });
        let both_reduced = Trigger::Reduced {
            workers: WORKERS,
            times: 2,
        };
        let others: [(&str, Job, Trigger); 2] = [
            (
                "two copies",
                job(&case).env("UNDERSTUDY_COPIES", "2"),
                both_reduced,
            ),
            ("a disk", job(&case).disk(), ALL_REDUCED),
        ];
        for (what, job, reduced) in others {
            let outcome = run(job, reduced);
            verdicts.judge(&format!("{what}: {fault}"), || {
                assert_like_undisturbed(&outcome, &case);
                outcome.assert_taken_over(&[1]);
                outcome.check(
                    has_refused_a_journal(&outcome),
                    "no process has reported the damage",
                );
            });
        }
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_journal_that_is_damaged_before_its_trial_replay_is_not_used() {
    let case = programs::heat2d();
    let mut verdicts = Verdicts::default();
    for copy in ["journal", "half-journal"] {
        let fault =
            format!("corrupt rank=1 at=phase.end copy={copy}; kill rank=1 at=cut.begin epoch=20");
        let outcome = job(&case).fault(&fault).run();
        verdicts.judge(&fault, || {
            assert_like_undisturbed(&outcome, &case);
            outcome.assert_taken_over(&[1]);
            outcome.check(
                elided_pages(&outcome, 1) == (0, 0),
                "the replica was reduced",
            );
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn two_replacements_replay_at_once() {
    let mut verdicts = Verdicts::default();
    for case in variants([programs::heat2d(), programs::cg()], 1) {
        let outcome = job(&case)
            .spares(2)
            .kill(Kill::at(0, ALL_REDUCED))
            .kill(Kill::at(2, ALL_REDUCED))
            .run();
        verdicts.judge(case.name, || {
            assert_like_undisturbed(&outcome, &case);
            outcome.assert_taken_over(&[0, 2]);
            let pages = [WORKERS, WORKERS + 1].map(|spare| rebuilt(&outcome, spare));
            outcome.check(
                pages.iter().all(|&pages| pages > 30),
                &format!("pages rebuilt: {pages:?}"),
            );
        });
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_setup_that_is_not_the_same_twice_is_kept_as_it_was() {
    assert_workers_recover(
        &prints("unlike", || {
            Job::new(paths::test_program("unlike"), &["3000"])
        }),
        20,
    );
}

/// Replicas are not reduced if a replay makes other calls than were recorded.
#[test]
#[ignore = "a variant: make test-all"]
fn calls_that_are_not_the_same_twice_are_noticed() {
    let case = prints("unlike, calls", || {
        Job::new(paths::test_program("unlike"), &["3000", "calls"])
    });
    let outcome = job(&case).fault("kill rank=1 at=cut.begin epoch=40").run();
    assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    outcome.check(
        elided_pages(&outcome, 1) == (0, 0),
        "the replica was reduced",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn mpi_may_call_the_program_back_in_the_phase() {
    let case = prints("callbacks", || {
        Job::new(paths::test_program("callbacks"), &["3000"])
    });
    for epoch in [2, 40] {
        let fault = format!("kill rank=1 at=cut.begin epoch={epoch}");
        let outcome = job(&case).fault(&fault).run();
        assert_like_undisturbed(&outcome, &case);
        outcome.assert_taken_over(&[1]);
    }
}

/// Compiles a program and its three libraries once, and makes its job.
fn roundabout() -> Job {
    let directory = run_directory::filled_once("roundabout", |directory| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/roundabout.c");
        let there = directory.to_string_lossy();
        let compile = |name: &str, flags: &[&str]| {
            let mut command = Command::new("mpicc");
            command
                .args([
                    "-O1",
                    "-g",
                    "-Wall",
                    "-o",
                    &format!("{there}/{name}"),
                    source,
                ])
                .args(flags);
            assert!(
                command
                    .status()
                    .expect("there is an mpicc on the PATH")
                    .success(),
                "mpicc fails"
            );
        };
        compile("libearly.so", &["-DEARLY", "-shared", "-fPIC"]);
        compile("libdeep.so", &["-DDEEP", "-shared", "-fPIC"]);
        let search = format!("-Wl,-rpath,{there}");
        compile(
            "liblate.so",
            &[
                "-DLATE", "-shared", "-fPIC", &search, "-L", &there, "-ldeep",
            ],
        );
        let search = format!("-Wl,--no-as-needed,-rpath,{there}");
        compile("roundabout", &[&search, "-L", &there, "-learly"]);
    });
    let late = directory.join("liblate.so");
    Job::new(
        directory.join("roundabout"),
        &[&late.to_string_lossy(), "3000"],
    )
}

#[test]
fn libraries_may_call_mpi_in_constructors_and_through_pointers() {
    let case = prints("roundabout", roundabout);
    let undisturbed = native(case.job());
    undisturbed.check(
        String::from_utf8_lossy(&undisturbed.stdout).contains("right before MPI_Init"),
        "no constructor has called MPI before MPI_Init",
    );
    assert_workers_recover(&case, 100);
    let in_the_phase = job(&case)
        .kill(Kill::at(2, ALL_REDUCED))
        .fault("kill rank=1 at=call:40")
        .spares(2)
        .run();
    assert_like_undisturbed(&in_the_phase, &case);
    in_the_phase.assert_taken_over(&[1, 2]);
}

/// Largest number of pages that differed in a trial replay; `None` without trial replays.
///
/// A trial replay that failed counts as one page more.
fn most_different_pages(outcome: &Outcome) -> Option<u64> {
    let events = (0..WORKERS).flat_map(|rank| outcome.events(rank));
    let found = events.filter_map(|record| match record.kind {
        Kind::TrialReplay {
            different, failure, ..
        } => Some(different + u64::from(failure.is_some())),
        _ => None,
    });
    found.max()
}

#[test]
fn clocks_are_answered_from_the_journal() {
    let case = prints("clocks", || {
        Job::new(paths::test_program("clocks"), &["3000"])
    });
    let outcome = job(&case).kill(Kill::at(1, ALL_REDUCED)).run();
    assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
    println!("pages that differ: {:?}", most_different_pages(&outcome));
    outcome.check(
        most_different_pages(&outcome) == Some(0),
        "pages differ, or a trial replay has failed",
    );
    outcome.check(
        rebuilt(&outcome, WORKERS) > 50,
        "too few pages were rebuilt",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn handlers_may_read_clocks_in_the_phase() {
    let case = prints("clocks, signals", || {
        Job::new(paths::test_program("clocks"), &["3000", "signals"])
    });
    let outcome = job(&case).fault("kill rank=1 at=cut.begin epoch=20").run();
    assert_like_undisturbed(&outcome, &case);
    outcome.assert_taken_over(&[1]);
}

/// A program with a special operation in its set-up phase: see `programs/phase.c`.
fn phase(what: &'static str, make: fn() -> Job) -> ffi_tests::programs::TestProgram {
    prints(what, make)
}

/// Calls and bytes of the longest set-up log, and the stored bytes, if any.
fn longest_journal(outcome: &Outcome) -> (understudy_formats::events::Amount, Option<u64>) {
    let events = (0..WORKERS).flat_map(|rank| outcome.events(rank));
    let tables = events.filter_map(|record| match record.kind {
        Kind::JournalCalls { calls: table } => Some((table.journal, table.kept)),
        _ => None,
    });
    let longest = tables
        .max_by_key(|(journal, _)| journal.bytes)
        .unwrap_or_default();
    println!("the longest set-up log: {longest:?}");
    longest
}

/// Kills a worker when replicas are reduced; fails if a set-up log is too long.
///
/// The calls of each log must have fewer than `max_bytes`, and the log must be stored.
fn assert_short_journal(case: &ffi_tests::programs::TestProgram, max_bytes: u64) {
    let outcome = job(case).kill(Kill::at(1, ALL_REDUCED)).run();
    assert_like_undisturbed(&outcome, case);
    outcome.assert_taken_over(&[1]);
    outcome.check(
        rebuilt(&outcome, WORKERS) > 100,
        "too few pages were rebuilt",
    );
    let (journal, kept) = longest_journal(&outcome);
    outcome.check(
        kept.is_some() && journal.bytes < max_bytes,
        &format!("{journal:?}"),
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn an_attached_buffer_is_no_output() {
    let case = phase("attach", || {
        Job::new(paths::test_program("phase"), &["3000", "attach"])
    });
    assert_short_journal(&case, 20_000);
}

#[test]
#[ignore = "a variant: make test-all"]
fn what_is_packed_is_recorded_once() {
    let case = phase("pack", || {
        Job::new(paths::test_program("phase"), &["3000", "pack"])
    });
    assert_short_journal(&case, 100_000);
}

#[test]
#[ignore = "a variant: make test-all"]
fn tests_in_vain_take_no_room() {
    let case = phase("tests", || {
        Job::new(paths::test_program("phase"), &["3000", "tests"])
    });
    assert_short_journal(&case, 20_000);
}

/// A set-up log that exceeds its limit ends at once, without a cut.
///
/// No cut can occur during the recorded calls.
#[test]
#[ignore = "a variant: make test-all"]
fn a_journal_ends_when_it_is_too_long() {
    const LIMIT: u64 = 100_000;
    let case = phase("clock", || {
        Job::new(paths::test_program("phase"), &["2000", "clock"])
    });
    let outcome = job(&case)
        .env("UNDERSTUDY_JOURNAL_LIMIT", &LIMIT.to_string())
        .env("UNDERSTUDY_LOG", "warn")
        .run();
    assert_like_undisturbed(&outcome, &case);
    let (journal, kept) = longest_journal(&outcome);
    let ends_at_limit = (LIMIT..LIMIT + 10_000).contains(&journal.bytes);
    outcome.check(kept.is_none() && ends_at_limit, &format!("{journal:?}"));
    let lines = outcome.own_lines();
    let count = lines
        .iter()
        .filter(|line| line.contains("UNDERSTUDY_JOURNAL_LIMIT"))
        .count();
    outcome.check(count == 1, &format!("{count} lines name the limit"));
}
