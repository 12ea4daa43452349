//! Programs that never call MPI_Init, but open sessions (MPI 4.1, 11.3).

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, Outcome, Random, Trigger, Verdicts, is_thorough, paths, variants};
use std::path::Path;
use std::time::Duration;

const ROUNDS: usize = 16;

/// Makes a job with a checkpoint in about every third round.
fn job(program: &Path, how: &str) -> Job {
    let arguments = [&ROUNDS.to_string(), "10", how];
    Job::new(program, &arguments).interval("7calls")
}

/// Returns the output of an undisturbed run.
///
/// Open MPI 5.0.11 alone crashes if a session is opened after the last one was closed. The
/// reference of such programs is therefore an undisturbed run under understudy.
fn undisturbed(make: impl Fn() -> Job, how: &str, is_mpich: bool) -> Outcome {
    let outcome = match ["again", "after"].contains(&how) && !is_mpich {
        true => make().run(),
        false => native(make()),
    };
    outcome.assert_success();
    outcome.assert_checks();
    outcome
}

fn die_between_rounds(program: &Path, is_mpich: bool, hows: &[&str]) {
    let mut random = Random::announced("instances");
    let mut verdicts = Verdicts::default();
    for how in variants(hows, 2) {
        let make = || match is_mpich {
            true => job(program, how).workers(2).of_mpich(),
            false => job(program, how),
        };
        let undisturbed = undisturbed(make, how, is_mpich);
        for _ in 0..if is_thorough() { 10 } else { 1 } {
            let worker = random.below(u64::from(make().worker_count())) as u32;
            let line = 3 + random.below(ROUNDS as u64 - 6) as usize;
            let delay = Duration::from_micros(random.below(30_000));
            let outcome = make()
                .kill(Kill::at(worker, Trigger::Lines(line)).after(delay))
                .run();
            verdicts.judge(
                &format!("{how}: worker {worker}, {delay:?} after line {line}"),
                || {
                    outcome.assert_all_recovered(&undisturbed, &[worker]);
                },
            );
        }
    }
    verdicts.assert_all_good();
}

#[test]
fn a_worker_dies_in_a_program_without_mpi_init() {
    die_between_rounds(
        &paths::test_program("instances"),
        false,
        &["once", "again", "world", "after"],
    );
}

/// The program imports MPI_Session_init, so its protection continues after MPI_Finalize (11.3).
///
/// Worker 1 fails in the World Model, between the two models, and in a session.
#[test]
fn a_worker_dies_in_a_session_after_mpi_finalize() {
    let mut verdicts = Verdicts::default();
    for is_mpich in variants([false, true], 1) {
        let program = match is_mpich {
            true => paths::mpich_program("instances"),
            false => Some(paths::test_program("instances")),
        };
        let Some(program) = program else { continue };
        let make = || match is_mpich {
            true => job(&program, "after").workers(2).of_mpich(),
            false => job(&program, "after"),
        };
        let undisturbed = undisturbed(make, "after", is_mpich);
        for (lines, delay) in variants([(4, 50), (10, 5), (2, 0)], 2) {
            let kill = Kill::at(1, Trigger::Lines(lines)).after(Duration::from_millis(delay));
            let outcome = make().kill(kill).run();
            verdicts.judge(
                &format!("{lines} lines, {delay} ms, with MPICH: {is_mpich}"),
                || {
                    outcome.assert_all_recovered(&undisturbed, &[1]);
                },
            );
        }
    }
    verdicts.assert_all_good();
}

/// The program finds MPI_Session_init by dlsym(3) only, and gets an error by its error handler.
#[test]
fn a_session_that_nothing_has_announced_is_refused_after_mpi_finalize() {
    let outcome = Job::new(paths::test_program("unnamed"), &[]).run();
    outcome.assert_success();
    outcome.check(
        outcome.stdout == b"refused: 1\n",
        "the session is not refused",
    );
    outcome.assert_line(&["[session-after-finalize]"]);
}

#[test]
fn a_worker_of_mpich_dies() {
    if let Some(program) = paths::mpich_program("instances") {
        die_between_rounds(&program, true, &["again", "world", "after"]);
    }
}

/// Failures at the first checkpoint, in MPI_Session_init, and at the program's exit.
#[test]
fn a_worker_dies_at_the_begin_or_the_end() {
    let program = paths::test_program("instances");
    let points = [
        "init.end",
        "finalize.begin",
        "init.begin",
        "commit.begin epoch=2",
    ];
    let mut verdicts = Verdicts::default();
    let undisturbed = undisturbed(|| job(&program, "again"), "again", false);
    for (worker, point) in variants(points.iter().enumerate(), 1) {
        let outcome = job(&program, "again")
            .fault(&format!("kill rank={worker} at={point}"))
            .run();
        verdicts.judge(point, || {
            outcome.assert_success();
            outcome.assert_same_lines(&undisturbed);
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

/// Worker 3 fails while the other workers are in exit(3) and have written all output.
#[test]
fn a_worker_dies_when_others_have_ended() {
    let program = paths::test_program("instances");
    let make = || Job::new(&program, &["4", "500", "once"]).interval("3calls");
    let undisturbed = undisturbed(make, "once", false);
    // Worker 0 exits 0.5 s after the last round's pause, worker 3 exits 2 s after the pause.
    let kill = Kill::at(3, Trigger::Lines(4)).after(Duration::from_millis(2250));
    let outcome = make().kill(kill).run();
    outcome.assert_all_recovered(&undisturbed, &[3]);
}

/// Every member of a group gets the error, before and after a failure.
///
/// Open MPI 5.0.11 itself crashes or hangs in the first of the program's calls.
#[test]
fn all_members_of_a_group_get_the_error_of_a_wrong_leader() {
    let job = || Job::new(paths::test_program("leaders"), &["12"]).workers(4);
    let undisturbed = job().run();
    undisturbed.assert_success();
    let text = String::from_utf8_lossy(&undisturbed.stdout);
    assert!(!text.contains("FAILED"), "an answer is wrong:\n{text}");
    let outcome = job()
        .interval("7calls")
        .fault("kill rank=1 at=call:60")
        .run();
    outcome.assert_all_recovered(&undisturbed, &[1]);
}
