//! Programs that are compiled with MPICH's mpicc: its handles are integers, its status and its constants are others.
//!
//! MPICH spins while it waits, so its own launcher gets two ranks; the jobs here have as many workers, and a spare.

use ffi_tests::outcome::native;
use ffi_tests::{Job, Kill, Outcome, Trigger, Verdicts, place};
use std::path::Path;
use std::time::Duration;

/// Rounds of every program, and the pause after each in milliseconds.
const ARGUMENTS: [&str; 2] = ["12", "8"];

fn job(program: &Path) -> Job {
    let job = Job::new(program, &ARGUMENTS).workers(2).interval("7calls");
    job.limit(Duration::from_secs(40)).of_mpich()
}

/// With a worker killed after its first rounds.
fn killed(program: &Path, lines: usize) -> Outcome {
    job(program).kill(Kill::at(1, Trigger::Lines(lines))).run()
}

fn lines_of_the_first_round(outcome: &Outcome) -> usize {
    let text = String::from_utf8_lossy(&outcome.stdout);
    text.lines().take_while(|line| !line.starts_with("round 1:")).count()
}

/// What the programs print is what they print with MPICH alone, undisturbed and with a worker killed.
#[track_caller]
fn conform(names: &[&str]) {
    let mut verdicts = Verdicts::default();
    for name in names {
        let Some(program) = place::mpich_program(name) else {
            return;
        };
        let alone = native(job(&program));
        let layered = job(&program).run();
        verdicts.judge(&format!("{name} undisturbed"), || {
            layered.assert_success();
            layered.assert_like(&alone, &[]);
        });
        let outcome = killed(&program, lines_of_the_first_round(&alone) + 3);
        verdicts.judge(&format!("{name} with a kill"), || {
            outcome.assert_success();
            outcome.assert_like(&alone, &[]);
            outcome.assert_taken_over(&[1]);
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn messages_requests_and_collectives() {
    conform(&["completion", "collectives", "buffered"]);
}

#[test]
fn communicators_groups_and_topologies() {
    conform(&["communicators", "intercommunicators", "groups", "topologies"]);
}

#[test]
fn operators_and_the_environment() {
    conform(&["operators", "environment"]);
}

/// MPICH itself does not tell the status of MPI_Isendrecv, says that it is no universe, and dies of MPI_Pack_external: so what the
/// layer answers is compared with itself, and must please the program.
#[test]
fn what_mpich_answers_otherwise() {
    let mut verdicts = Verdicts::default();
    for name in ["point_to_point", "attributes"] {
        let Some(program) = place::mpich_program(name) else {
            return;
        };
        let layered = job(&program).run();
        let outcome = killed(&program, lines_of_the_first_round(&layered) + 3);
        verdicts.judge(name, || {
            layered.assert_success();
            let text = String::from_utf8_lossy(&layered.stdout);
            layered.check(!text.contains("FAILED"), "the program does not like an answer");
            outcome.assert_success();
            outcome.assert_like(&layered, &[]);
            outcome.assert_taken_over(&[1]);
        });
    }
    verdicts.assert_all_good();
}

fn heat2d(program: &Path) -> Job {
    let output = ["heat.field", "--print-every", "150", "--log", "heat.log"];
    let arguments = [&["300", "300", "6000"], &output[..]].concat();
    let job = Job::new(program, &arguments).workers(2).interval("0.1s");
    job.limit(Duration::from_secs(60)).of_mpich()
}

#[test]
fn a_worker_of_heat2d_dies_in_the_middle() {
    let Some(program) = place::mpich_example("heat2d") else {
        return;
    };
    let alone = native(heat2d(&program));
    for (worker, line) in [(0, 12), (1, 20)] {
        let outcome = heat2d(&program).kill(Kill::at(worker, Trigger::Lines(line))).run();
        outcome.assert_success();
        outcome.assert_like(&alone, &["heat.field", "heat.log"]);
        outcome.assert_taken_over(&[worker]);
        outcome.assert_nothing_left();
    }
}

/// The answer to what cannot be done is an error of MPI or a message, never silence.
#[test]
fn what_is_not_supported_says_so() {
    let Some(program) = place::mpich_program("of_mpich") else {
        return;
    };
    let outcome = job(&program).run();
    outcome.check(
        outcome.status.is_some_and(|status| !status.success()),
        "the job is a success",
    );
    let lines = outcome.own_lines();
    let says_so = |line: &&str| line.contains("MPI_Bcast_c is not supported under protection");
    outcome.check(lines.iter().any(says_so), "nothing says why");
}
