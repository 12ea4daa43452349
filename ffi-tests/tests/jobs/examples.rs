//! Example programs of other kinds than those that most tests run: killed, they end with the same bytes.

use ffi_tests::shared::native;
use ffi_tests::{Job, Outcome, few, place};

/// Newton's method with a dense system of equations: panels and blocks go through the communicators of a grid's rows and columns.
fn argtrig() -> Job {
    let arguments = ["48", "30", "x", "--block", "8", "--print-every", "2"];
    Job::new(place::example("argtrig"), &arguments).interval("5calls")
}

#[track_caller]
fn assert_undisturbed(outcome: &Outcome, alone: Job, files: &[&str], killed: u32) {
    outcome.assert_success();
    outcome.assert_like(&native(alone), files);
    outcome.assert_taken_over(&[killed]);
    outcome.assert_nothing_left();
}

#[test]
fn a_dense_solver_writes_the_same_whoever_is_killed_and_whenever() {
    let faults = [
        (1, "at=call:1000"),
        (2, "at=ship.half epoch=4"),
        (0, "at=call:2300"),
        (3, "at=commit.end epoch=6 delay=3ms"),
    ];
    for (rank, place) in few(faults, 2) {
        let outcome = argtrig().fault(&format!("kill rank={rank} {place}")).run();
        assert_undisturbed(&outcome, argtrig(), &["x"], rank);
        // It has gone back by five iterations at most.
        outcome.check(outcome.last_epoch((rank + 1) % 4) >= 7, "there were fewer checkpoints");
    }
}
