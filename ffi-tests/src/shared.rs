//! Undisturbed runs that test programs share: those of one `make test` are given a directory for them, which is removed at its end.

use crate::job::Job;
use crate::outcome::Outcome;
use crate::place;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The directory.
const VARIABLE: &str = "FFI_TESTS_SHARED";

/// The undisturbed run of a job without understudy; each is run once per test program, or once for all test programs of one `make test`.
///
/// # Panics
/// If it fails.
pub fn native(job: Job) -> Arc<Outcome> {
    static DONE: Mutex<Option<HashMap<String, Arc<Outcome>>>> = Mutex::new(None);
    let mut done = DONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let done = done.get_or_insert_default();
    let job = job.native();
    let key = job.key();
    if let Some(outcome) = done.get(&key) {
        return Arc::clone(outcome);
    }
    let run = || {
        let outcome = job.run();
        outcome.check(
            outcome.status.is_some_and(|status| status.success()),
            "the native run failed",
        );
        println!("native run: {:?}: {}", outcome.wall, outcome.line);
        outcome
    };
    let outcome = Arc::new(outcome(&key, run));
    done.insert(key, Arc::clone(&outcome));
    outcome
}

/// The outcome of a successful run of that name by an earlier test program, or of this `run`.
fn outcome(name: &str, run: impl FnOnce() -> Outcome) -> Outcome {
    let Some(directory) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        return run();
    };
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let place = directory.join(format!("{:016x}", hasher.finish()));
    if place.is_dir() {
        return of(&place, name);
    }
    let outcome = run();
    // Another test program may have come before; its run is as good.
    let own = place.with_extension(std::process::id().to_string());
    copy(&outcome.path(""), &own);
    let _ = std::fs::rename(own, place);
    outcome
}

fn of(place: &Path, name: &str) -> Outcome {
    let (began, root) = (Instant::now(), place::directory());
    copy(&place.join("."), root.path());
    let (status, line) = (Some(ExitStatus::default()), format!("as before: {name}"));
    Outcome::new(root, line, status, began.elapsed(), Vec::new(), Vec::new())
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cp fails on {}",
        from.display()
    );
}
