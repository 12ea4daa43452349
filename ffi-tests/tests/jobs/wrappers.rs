//! Programs that other programs start in their place: env(1), a shell.

use ffi_tests::place::{self, Launcher};
use ffi_tests::shared::native;
use ffi_tests::{Job, Kill, Outcome, REFUSED, Trigger};

/// Variables without which Open MPI's library does not start.
const NEEDED: [&str; 4] = ["HOME", "OPAL_PREFIX", "LD_LIBRARY_PATH", "PATH"];

/// A program in a cleared environment.
fn cleared() -> Job {
    let value = |name: &&str| Some(format!("{name}={}", std::env::var(name).ok()?));
    let program = place::test_program("chatter").display().to_string();
    let mut words = vec!["-i".to_owned()];
    words.extend(NEEDED.iter().filter_map(value));
    words.extend([program, "40".to_owned(), "10000".to_owned()]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Job::new("/usr/bin/env", &words).interval("7calls")
}

/// The program of [`cleared`] without the wrapper.
fn bare() -> Job {
    Job::new(place::test_program("chatter"), &["40", "10000"])
}

#[track_caller]
fn assert_like_bare(outcome: &Outcome, worker: u32) {
    outcome.assert_success();
    outcome.assert_same_lines(&native(bare()));
    outcome.assert_taken_over(&[worker]);
}

#[test]
fn a_program_in_a_cleared_environment_is_the_rank() {
    for launcher in [Launcher::Ckptd, Launcher::Mpirun] {
        let job = cleared().launched_by(launcher);
        let outcome = job.kill(Kill::at(1, Trigger::Lines(10))).run();
        assert_like_bare(&outcome, 1);
    }
}

/// The wrapper forks, since it leads a process group, and ends.
#[test]
fn a_program_in_the_background_of_its_wrapper_is_refused() {
    for launcher in [Launcher::Ckptd, Launcher::Mpirun] {
        let program = place::test_program("chatter").display().to_string();
        let job = Job::new("/usr/bin/setsid", &[&program, "40", "10000"]);
        let outcome = job.launched_by(launcher).run();
        let status = outcome.status.and_then(|status| status.code());
        outcome.check(
            status == Some(REFUSED),
            "the status is not that of a refusal",
        );
        let is_cause = |line: &&str| line.contains("runs in the background of /usr/bin/setsid");
        outcome.check(
            outcome.own_lines().iter().any(is_cause),
            "no line names the wrapper",
        );
        outcome.check(outcome.stdout.is_empty(), "the program has run");
        outcome.assert_nothing_left();
    }
}
