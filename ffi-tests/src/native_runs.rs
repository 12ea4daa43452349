//! Undisturbed runs, which many tests compare with.

use crate::job::Job;
use crate::outcome::Outcome;
use crate::paths;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Runs = HashMap<String, Arc<OnceLock<Arc<Outcome>>>>;

/// Native runs of this process by [`Job::key`].
static RUNS: Mutex<Option<Runs>> = Mutex::new(None);

extern "C" fn forget() {
    *RUNS.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Returns the entry of the run with this name.
fn run(name: String) -> Arc<OnceLock<Arc<Outcome>>> {
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let runs = runs.get_or_insert_with(|| {
        paths::at_exit(forget);
        Runs::new()
    });
    Arc::clone(runs.entry(name).or_default())
}

/// Attempts at a run without understudy.
///
/// The MPI libraries fail now and then by themselves (MPICH's UCX: "invalid bandwidth 0.00").
const ATTEMPTS: usize = 3;

/// Returns the undisturbed run of a job without understudy.
///
/// Each job runs once per test program.
///
/// # Panics
/// If all attempts fail.
pub fn native(job: Job) -> Arc<Outcome> {
    let job = job.native();
    let run = run(job.key());
    Arc::clone(run.get_or_init(|| Arc::new(successful_run(job))))
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
