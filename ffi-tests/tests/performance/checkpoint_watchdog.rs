//! A phase in which no checkpoint is possible is reported once.
//!
//! The message names the process that prevents checkpoints.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, paths};

fn lull(how: &str, interval: &str, anywhere: &str) -> Outcome {
    let job = Job::new(paths::test_program("lull"), &[how, "3"]).workers(3);
    let job = job.env("UNDERSTUDY_ANYWHERE", anywhere);
    let outcome = job.interval(interval).run();
    outcome.assert_success();
    outcome.check(outcome.stdout == b"lull: done, 3\n", "another output");
    outcome.assert_nothing_left();
    outcome
}

fn checkpoint_warnings(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.own_lines().into_iter();
    lines
        .filter(|line| line.contains("[no-checkpoint]"))
        .collect()
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_phase_of_messages_is_reported_with_the_call() {
    let outcome = lull("talk", "0.1s", "0");
    let lines = checkpoint_warnings(&outcome);
    outcome.check(
        lines.len() == 1 && lines[0].contains("its last MPI call is MPI_Sendrecv at exchange+"),
        "not one line with the call",
    );
    outcome.check(lines[0].contains("MPI_Barrier"), "no remedy");
}

#[test]
#[ignore = "a variant: make test-all"]
fn the_worker_that_the_others_wait_for_is_named() {
    let outcome = lull("compute", "0.1s", "0");
    let lines = checkpoint_warnings(&outcome);
    outcome.check(
        lines.len() == 1 && lines[0].contains("worker 1 (rank 1 on "),
        "not one line with worker 1",
    );
}

/// MPI_Comm_free does not disconnect the processes (MPI 4.1, 11.10.4).
#[test]
fn connected_spawned_processes_are_reported() {
    let job = || {
        let job = Job::new(paths::test_program("spawning"), &["1", "20", "freed"]).workers(2);
        job.tcp().interval("0.1s")
    };
    let outcome = job().run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(job()));
    let lines = checkpoint_warnings(&outcome);
    outcome.check(
        lines.len() == 1
            && lines[0].contains(" is connected to processes that the program has spawned"),
        "not one line with the reason",
    );
    outcome.check(lines[0].contains("MPI_Comm_disconnect"), "no remedy");
    outcome.assert_nothing_left();
}

#[test]
fn the_last_call_is_named_after_effects_on_files() {
    let outcome = lull("write", "0.1s", "1");
    let lines = checkpoint_warnings(&outcome);
    outcome.check(
        lines.len() == 1 && lines[0].contains("its last MPI call is MPI_Barrier at main+"),
        "not one line with the call",
    );
}

#[test]
fn a_worker_that_does_not_call_mpi_is_named() {
    let outcome = lull("compute", "0.1s", "1");
    let lines = checkpoint_warnings(&outcome);
    let words = [
        "worker 1 (rank 1 on ",
        "has made no communication call",
        "MPI_Iprobe",
    ];
    outcome.check(
        lines.len() == 1 && words.iter().all(|words| lines[0].contains(words)),
        "not one line with worker 1",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_phase_of_few_intervals_is_not_reported() {
    let outcome = lull("talk", "1s", "0");
    outcome.check(
        checkpoint_warnings(&outcome).is_empty(),
        "the phase was reported",
    );
}
