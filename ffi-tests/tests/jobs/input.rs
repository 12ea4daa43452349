//! Standard input: a file is read on where it was at the checkpoint; what is read of a pipe is never lost in silence.

use ffi_tests::job::STANDARD_INPUT;
use ffi_tests::shared::native;
use ffi_tests::{Job, Kill, Outcome, Trigger, place};

/// Rounds of the program, and the pause after each in milliseconds.
const ROUNDS: usize = 30;
const PAUSE: &str = "15";

fn numbers() -> String {
    (1..=ROUNDS)
        .map(|number| format!("line {number}\n"))
        .collect()
}

/// Reads so many lines of what the launcher gives it: a pipe.
fn from_pipe(lines: usize) -> Job {
    let arguments = [&ROUNDS.to_string(), PAUSE, &lines.to_string()];
    Job::new(place::test_program("input"), &arguments)
        .input(STANDARD_INPUT, &numbers())
        .interval("7calls")
}

/// Reads a line of a file in each round.
fn from_file() -> Job {
    let program = place::test_program("input");
    let command = format!(
        "exec {} {ROUNDS} {PAUSE} {ROUNDS} < numbers",
        program.display()
    );
    Job::new("/bin/sh", &["-c", &command])
        .input("numbers", &numbers())
        .interval("7calls")
}

/// In the middle of the run.
fn kill(worker: u32) -> Kill {
    Kill::at(worker, Trigger::Lines(ROUNDS / 2))
}

#[track_caller]
fn assert_as_undisturbed(outcome: &Outcome, undisturbed: &Outcome, worker: u32) {
    outcome.assert_success();
    outcome.assert_like(undisturbed, &[]);
    outcome.assert_taken_over(&[worker]);
}

#[test]
fn a_file_is_read_on_by_survivors_and_understudies() {
    let undisturbed = native(from_file());
    for worker in [0, 2] {
        assert_as_undisturbed(&from_file().kill(kill(worker)).run(), &undisturbed, worker);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn input_that_was_read_before_the_checkpoint_is_not_missed() {
    let undisturbed = native(from_pipe(2));
    let survived = from_pipe(2).kill(kill(2)).run();
    assert_as_undisturbed(&survived, &undisturbed, 2);
    let taken_over = from_pipe(2).kill(kill(0)).run();
    assert_as_undisturbed(&taken_over, &undisturbed, 0);
    taken_over.check(
        taken_over.stderr.contains("standard input"),
        "no word of the input that is gone",
    );
}

#[test]
fn input_that_cannot_be_read_again_ends_the_job() {
    // The only checkpoint is that of MPI_Init.
    let outcome = from_pipe(ROUNDS)
        .interval("100000calls")
        .kill(kill(2))
        .run();
    let status = outcome.status.and_then(|status| status.code());
    outcome.check(status == Some(74), "the status is 74");
    let said = outcome
        .own_lines()
        .iter()
        .any(|line| line.contains("standard input") && line.contains("< FILE"));
    outcome.check(said, "cause and remedy are not told");
}
