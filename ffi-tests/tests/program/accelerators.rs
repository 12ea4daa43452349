//! Programs that use an accelerator, with a replacement for its driver's library.
//!
//! Memory of the device is in no mapping of the process.

use ffi_tests::native_runs::native;
use ffi_tests::{
    Job, Kill, KillScope, Outcome, Trigger, Verdicts, fault_at_commit, paths, variants,
};

const WORKERS: u32 = 3;
const ROUNDS: usize = 30;

/// Makes a job that opens the driver of a `kind` (`new`, `old`) at a time.
///
/// The time is `early`, `late` or `unused`.
fn job(kind: &str, when: &str) -> Job {
    let library = paths::test_program("accelerator")
        .with_file_name("accelerators")
        .join(kind)
        .join("libcuda.so.1");
    let arguments = [&*library.to_string_lossy(), &ROUNDS.to_string(), when];
    Job::new(paths::test_program("accelerator"), &arguments)
        .workers(WORKERS)
        .interval("3calls")
}

/// All workers are replaced, since survivors cannot roll back the memory of an open device.
#[test]
fn device_memory_is_restored_after_any_failure() {
    let mut verdicts = Verdicts::default();
    for (when, victim, lines) in variants(
        [
            ("early", 1, 14),
            ("late", 0, 20),
            ("late", 2, 17),
            ("early", 0, 23),
        ],
        1,
    ) {
        verdicts.judge(
            &format!("{when}, rank {victim} after {lines} lines"),
            || {
                let outcome = job("new", when)
                    .kill(Kill::at(victim, Trigger::Lines(lines)))
                    .run();
                assert_recovered(&outcome, when, &[0, 1, 2]);
            },
        );
    }
    verdicts.assert_all_good();
}

/// A worker fails before the driver is opened; survivors are rolled back in place.
#[test]
fn before_the_device_is_opened_only_the_dead_are_replaced() {
    let outcome = job("new", "late").fault(&fault_at_commit(2, 2)).run();
    assert_recovered(&outcome, "late", &[2]);
}

/// Fails unless the output is that of a native run and these workers were replaced.
#[track_caller]
fn assert_recovered(outcome: &Outcome, when: &str, workers: &[u32]) {
    outcome.assert_success();
    outcome.assert_like(&native(job("new", when)), &[]);
    outcome.assert_replaced(workers);
}

#[test]
fn another_process_may_die_in_the_recovery() {
    let mut verdicts = Verdicts::default();
    for stage in variants(["load", "resume", "agree", "rebuild", "reprotect"], 1) {
        verdicts.judge(stage, || {
            let dying = format!("kill rank=1 at=commit.end epoch=4; kill rank=3 at={stage}");
            let outcome = job("new", "early").fault(&dying).run();
            outcome.assert_success();
            outcome.assert_like(&native(job("new", "early")), &[]);
            outcome.check(outcome.faults() == [1, 3], "not both ranks were killed");
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn a_killed_job_resumes_from_disk() {
    let at = Trigger::OnDisk {
        workers: WORKERS,
        epoch: 4,
    };
    let mut first = job("new", "early")
        .disk()
        .killed_as_a_whole(at, KillScope::Job)
        .run();
    first.check(
        first.killed.iter().all(|killed| killed.hit),
        "the job ended before it was killed",
    );
    let second = job("new", "early")
        .disk()
        .env("UNDERSTUDY_RESTART", "1")
        .run_after(&mut first);
    second.assert_success();
    let undisturbed = native(job("new", "early"));
    let is_rest = undisturbed.stdout.ends_with(&second.stdout)
        && second.stdout.len() < undisturbed.stdout.len();
    second.check(
        is_rest && !second.stdout.is_empty(),
        "the output is not the rest of an undisturbed run's",
    );
    second.assert_nothing_left();
}

/// Kind of the driver, time of its opening, an environment variable, and expected words.
type Row = (
    &'static str,
    &'static str,
    (&'static str, &'static str),
    &'static [&'static str],
);

/// Device memory cannot be saved: one line names the reason; the program continues unprotected.
///
/// With UNDERSTUDY_REQUIRE=1, the job stops.
#[test]
fn what_cannot_be_saved_is_refused_in_one_line() {
    let rows: [Row; 5] = [
        (
            "old",
            "early",
            ("UNUSED", ""),
            &["CUDA 12.4", "cuCheckpointProcessLock", "570"],
        ),
        (
            "new",
            "late",
            ("ACCELERATOR_FAILS", "cuCheckpointProcessCheckpoint:801"),
            &["cuCheckpointProcessCheckpoint", "error 801"],
        ),
        (
            "new",
            "early",
            ("ACCELERATOR_KEEPS", "pipe"),
            &["pipe:", "another process would not have"],
        ),
        (
            "new",
            "early",
            ("UNDERSTUDY_STATIC", "replay"),
            &["UNDERSTUDY_STATIC"],
        ),
        (
            "old",
            "late",
            ("UNUSED", ""),
            &["CUDA 12.4", "cuCheckpointProcessLock", "570"],
        ),
    ];
    let mut verdicts = Verdicts::default();
    for (kind, when, (name, value), words) in variants(rows, 2) {
        verdicts.judge(&format!("{kind} {when} {name}"), || {
            let outcome = job(kind, when).env(name, value).run();
            outcome.assert_single_line(&["accelerator", "unprotected"]);
            outcome.assert_single_line(words);
            outcome.assert_success();
            outcome.assert_same_lines(&native(job(kind, when)));
        });
    }
    let stopped = job("old", "late").env("UNDERSTUDY_REQUIRE", "1").run();
    stopped.assert_single_line(&["CUDA 12.4", "UNDERSTUDY_REQUIRE=1"]);
    stopped.assert_failed();
    verdicts.assert_all_good();
}

/// The device memory cannot be restored: the job ends, and prints no wrong bytes.
#[test]
fn memory_that_cannot_be_restored_ends_the_job() {
    let outcome = job("new", "early")
        .env("ACCELERATOR_FAILS", "cuCheckpointProcessRestore:2:3")
        .run();
    outcome.assert_status(74);
    outcome.assert_line(&["cuCheckpointProcessRestore", "error 2"]);
    outcome.check(
        native(job("new", "early"))
            .stdout
            .starts_with(&outcome.stdout),
        "something else was printed",
    );
    outcome.assert_nothing_left();
}

#[test]
fn a_driver_that_is_only_loaded_is_no_accelerator() {
    let outcome = job("old", "unused")
        .kill(Kill::at(1, Trigger::Lines(14)))
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(job("old", "unused")), &[]);
    outcome.check(
        outcome.takeovers().contains(&1),
        "no process has taken over",
    );
}
