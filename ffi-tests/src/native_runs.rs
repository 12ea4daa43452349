//! Undisturbed runs, which many tests compare with.

use crate::job::Job;
use crate::outcome::Outcome;
use crate::run_directory;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Attempts at a run without understudy.
///
/// The MPI libraries fail now and then by themselves (MPICH's UCX: "invalid bandwidth 0.00").
const ATTEMPTS: usize = 3;

/// Returns the undisturbed run of a job without understudy.
///
/// Each job runs once per run of the tests.
///
/// # Panics
/// If all attempts fail.
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

fn is_good(outcome: &Outcome) -> bool {
    outcome.status.is_some_and(|status| status.success())
}

fn successful_run(mut job: Job) -> Outcome {
    let mut outcome = job.attempt();
    for _ in 1..ATTEMPTS {
        if is_good(&outcome) {
            break;
        }
        println!("a native run failed: {}", outcome.stderr);
        outcome = job.attempt();
    }
    outcome.check(is_good(&outcome), "the native run failed each time");
    println!("native run: {:?}: {}", outcome.wall, outcome.line);
    outcome
}

/// Runs a job with this fault and compares it with an undisturbed run.
///
/// # Panics
/// If exit status or standard output differ, or something is left behind.
#[track_caller]
pub fn run_with_fault(job: impl Fn() -> Job, fault: &str) -> Outcome {
    let outcome = job().fault(fault).run();
    outcome.assert_success();
    outcome.check(outcome.stdout == native(job()).stdout, "the output differs");
    outcome.assert_nothing_left();
    outcome
}
