//! Standard input: reading of a file or a pipe continues at the checkpoint's position.
//!
//! Other input is never lost without a message.

use ffi_tests::job::STANDARD_INPUT;
use ffi_tests::kill::count_lines;
use ffi_tests::living_processes::beside_work;
use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, Launcher, Trigger, paths, processes, variants};
use std::collections::BTreeMap;

/// Rounds of the program.
const ROUNDS: usize = 30;
/// Pause after each round in milliseconds.
const PAUSE: &str = "15";

/// Returns the input: one line for each round.
fn numbers() -> String {
    (1..=ROUNDS)
        .map(|number| format!("line {number}\n"))
        .collect()
}

/// Makes a job that reads `lines` lines from the launcher's pipe.
fn from_pipe(lines: usize) -> Job {
    let arguments = [&ROUNDS.to_string(), PAUSE, &lines.to_string()];
    Job::new(paths::test_program("input"), &arguments)
        .input(STANDARD_INPUT, &numbers())
        .interval("7calls")
}

/// Makes a job that reads a line of a file in each round.
fn from_file() -> Job {
    let program = paths::test_program("input");
    let command = format!(
        "exec {} {ROUNDS} {PAUSE} {ROUNDS} < numbers",
        program.display()
    );
    Job::new("/bin/sh", &["-c", &command])
        .input("numbers", &numbers())
        .interval("7calls")
}

/// Kills a worker in the middle of the run.
fn kill(worker: u32) -> Kill {
    Kill::at(worker, Trigger::Lines(ROUNDS / 2))
}

#[test]
fn a_file_is_read_on_by_survivors_and_replacements() {
    let undisturbed = native(from_file());
    for worker in variants([0, 2], 1) {
        from_file()
            .kill(kill(worker))
            .run()
            .assert_recovered(&undisturbed, &[], &[worker]);
    }
}

#[test]
fn a_pipe_is_reread_by_survivors_and_replacements() {
    let undisturbed = native(from_pipe(ROUNDS));
    for worker in variants([0, 2], 1) {
        let outcome = from_pipe(ROUNDS).kill(kill(worker)).run();
        outcome.assert_recovered(&undisturbed, &[], &[worker]);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_pipe_is_reread_by_a_new_process() {
    let undisturbed = native(from_pipe(ROUNDS));
    let outcome = from_pipe(ROUNDS).spares(0).kill(kill(0)).run();
    outcome.assert_recovered(&undisturbed, &[], &[0]);
}

/// Rank 0 fails before the first checkpoint; the job starts from the beginning.
#[test]
#[ignore = "a variant: make test-all"]
fn a_restarted_job_reads_its_input_from_the_beginning() {
    let undisturbed = native(from_pipe(ROUNDS));
    let outcome = from_pipe(ROUNDS).fault("kill rank=0 at=boot.end").run();
    outcome.assert_success();
    outcome.assert_like(&undisturbed, &[]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn input_that_was_read_before_the_checkpoint_is_not_missed() {
    let undisturbed = native(from_pipe(2));
    for worker in variants([2, 0], 1) {
        let outcome = from_pipe(2).kill(kill(worker)).run();
        outcome.assert_recovered(&undisturbed, &[], &[worker]);
    }
}

/// Makes a job that reads a pipe that its wrapper has opened.
fn from_pipe_of_wrapper() -> Job {
    let program = paths::test_program("input");
    let command = format!(
        "exec {} {ROUNDS} {PAUSE} {ROUNDS} < <(cat numbers)",
        program.display()
    );
    Job::new("/bin/bash", &["-c", &command]).input("numbers", &numbers())
}

#[test]
fn a_pipe_of_a_wrapper_that_cannot_be_reread_ends_the_job() {
    for worker in variants([2, 0], 1) {
        // With the long interval, the only checkpoint before the failure is that of MPI_Init.
        let interval = ["7calls", "100000calls"][usize::from(worker == 2)];
        let job = from_pipe_of_wrapper().interval(interval);
        let outcome = job.kill(kill(worker)).run();
        outcome.assert_status(74);
        outcome.assert_line(&["standard input", "< FILE"]);
    }
}

/// Number of lines that a job has printed, seen from one of its processes.
fn printed(pid: u32) -> usize {
    beside_work(pid).map_or(0, |job| count_lines(&job.join("stdout")))
}

/// The process that passes the input on to the spare is killed; the job ends.
///
/// Worker 0 has failed before, so the spare reads the input.
#[test]
fn a_relay_that_fails_ends_no_input() {
    // The input is twice as long as the capacity of the relay and the pipe.
    let line = "x".repeat(8000);
    let input: String = (0..ROUNDS)
        .map(|number| format!("{number} {line}\n"))
        .collect();
    let job = || from_pipe(ROUNDS).input(STANDARD_INPUT, &input);
    let mut relay = None;
    let kill_relay = move |ranks: &BTreeMap<u32, processes::Process>| {
        relay = relay.or(ranks.get(&0).map(|first| first.parent));
        let is_halfway = ranks
            .get(&1)
            .is_some_and(|rank| printed(rank.pid) > ROUNDS / 2);
        is_halfway && relay.is_some_and(processes::kill)
    };
    let undisturbed = native(job());
    let job = job().launched_by(Launcher::Ckptd);
    let outcome = job.fault("kill rank=0 at=call:23").watch(kill_relay).run();
    outcome.assert_status(74);
    let code = "[input-relay-gone]";
    outcome.assert_line(&[code]);
    let right = String::from_utf8_lossy(&undisturbed.stdout);
    let printed = String::from_utf8_lossy(&outcome.stdout);
    let is_right = |line: &str| right.lines().any(|it| it == line);
    outcome.check(printed.lines().all(is_right), "a line is wrong");
    outcome.assert_nothing_left();
}
