//! Runs without understudy, with which many tests compare their own runs.

use crate::job::Job;
use crate::outcome::Outcome;
use crate::run_directory;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum number of attempts at a run without understudy.
///
/// The MPI libraries fail now and then by themselves (MPICH's UCX: "invalid bandwidth 0.00").
const ATTEMPTS: usize = 3;

/// Returns the outcome of a job without understudy and without failures.
///
/// Equal jobs are run once per run of the tests.
///
/// # Panics
/// Panics if all attempts fail.
pub fn native(job: Job) -> Outcome {
    let job = job.native();
    let mut hasher = DefaultHasher::new();
    job.key().hash(&mut hasher);
    let name = format!("native/{:016x}", hasher.finish());
    let directory = run_directory::filled_once(&name, |directory| {
        successful_run(job).store(directory);
    });
    Outcome::load(&directory)
}

fn is_successful(outcome: &Outcome) -> bool {
    outcome.status.is_some_and(|status| status.success())
}

fn successful_run(mut job: Job) -> Outcome {
    let mut outcome = job.attempt();
    for _ in 1..ATTEMPTS {
        if is_successful(&outcome) {
            break;
        }
        println!("a native run failed: {}", outcome.stderr);
        outcome = job.attempt();
    }
    outcome.check(
        is_successful(&outcome),
        "each attempt at the native run failed",
    );
    println!("native run: {:?}: {}", outcome.wall, outcome.line);
    outcome
}

/// Runs a job with this fault; fails unless it prints what an undisturbed run prints.
///
/// # Panics
/// Panics if the exit status is not 0, standard output differs, or the job leaves something behind.
#[track_caller]
pub fn run_with_fault(job: impl Fn() -> Job, fault: &str) -> Outcome {
    let outcome = job().fault(fault).run();
    outcome.assert_success();
    outcome.check(outcome.stdout == native(job()).stdout, "the output differs");
    outcome.assert_nothing_left();
    outcome
}
