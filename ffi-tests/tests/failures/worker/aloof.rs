//! Workers that do not call MPI while another worker fails are rolled back too.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Kill, Random, Trigger, Verdicts, paths, variants};
use std::time::Duration;

fn job(arguments: &[&str]) -> Job {
    Job::new(paths::test_program("aloof"), arguments)
        .workers(3)
        .interval("1calls")
}

/// Arguments of the program, and delay in ms between a printed line and the kill.
type Row = (&'static [&'static str], u64);
const COMPUTES: &[&str] = &["4", "100"];
const THREADS: &[&str] = &["4", "100", "threads"];
const POLLS_MEMORY: &[&str] = &["5", "1500", "memory"];

/// Kills worker 1 in a run for each row; fails unless every job recovers.
#[track_caller]
fn assert_interrupted(rows: impl IntoIterator<Item = Row>) {
    let mut verdicts = Verdicts::default();
    for (arguments, delay) in rows {
        verdicts.judge(&format!("{arguments:?} after {delay} ms"), || {
            let kill = Kill::at(1, Trigger::Lines(2)).after(Duration::from_millis(delay));
            let outcome = job(arguments).input("endless", "").kill(kill).run();
            outcome.check(
                outcome.file("endless").is_none() || arguments == POLLS_MEMORY,
                "no process has removed `endless`: none computes without end",
            );
            outcome.assert_success();
            outcome.assert_like(&native(job(arguments)), &["aloof.log"]);
            outcome.assert_taken_over(&[1]);
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

/// Worker 1 is killed while worker 0 computes without end and never calls MPI.
///
/// All other workers wait for worker 0 in the next MPI instance, so worker 0 must be interrupted.
#[test]
fn a_worker_that_computes_is_set_back_from_where_it_is() {
    assert_interrupted(variants(
        [
            (COMPUTES, 200),
            (THREADS, 200),
            (COMPUTES, 500),
            (THREADS, 700),
        ],
        1,
    ));
}

/// Worker 1 is killed while workers wait for each other by polling shared memory.
///
/// Without an interruption they would poll forever, since they do not call MPI.
#[test]
fn workers_that_wait_in_shared_memory_are_set_back() {
    assert_interrupted(variants([10, 25].map(|delay| (POLLS_MEMORY, delay)), 1));
}

/// Random moments interrupt a computing worker in malloc(3), in stdio, or in a system call.
#[test]
#[ignore = "many kills: make sweep"]
fn a_worker_is_set_back_from_anywhere() {
    let mut random = Random::announced("aloof");
    assert_interrupted((0..24).map(|_| (COMPUTES, random.below(400))));
}
