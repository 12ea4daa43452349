//! A rank that stands still is named with its place, and replaced on request.

use ffi_tests::command::understudy;
use ffi_tests::living_processes::{Ranks, has_printed, job_mark, living_and_lines};
use ffi_tests::native_runs::native;
use ffi_tests::programs::heat2d;
use ffi_tests::{Job, Outcome, paths, processes};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of printed lines after which rank 1 is stopped.
const LINES: usize = 4;

/// Stops rank 1 of a job; then calls `then` until it returns true.
fn stopped(job: Job, mut then: impl FnMut(&Ranks) -> bool + 'static) -> Job {
    let mut is_stopped = false;
    job.watch(move |ranks| {
        if !is_stopped && living_and_lines(ranks, "heat2d").1 >= LINES {
            is_stopped = processes::send(ranks[&1].pid, Signal::STOP);
        }
        is_stopped && then(ranks)
    })
}

/// Returns the part of `understudy status OPTION` about the job of these ranks, and its name.
fn status(ranks: &Ranks, option: &str) -> (String, String) {
    let text = understudy(&["status", option]);
    let mark = job_mark(ranks[&0].parent);
    let mut lines = text.lines().skip_while(|line| !line.contains(&mark));
    let head = lines.next().unwrap_or_default();
    let name = head.split(": ").next().unwrap_or_default().to_owned();
    let ranks = lines.take_while(|line| line.starts_with("  "));
    (name, ranks.collect::<Vec<_>>().join("\n"))
}

fn assert_replaced(outcome: &Outcome) {
    outcome.assert_taken_over(&[1]);
    outcome.assert_line(&["worker 1 failed", "[recovered]"]);
}

#[test]
fn a_stopped_rank_is_reported() {
    let job = heat2d().job().env("UNDERSTUDY_HANG_AFTER", "2s");
    let job = stopped(job, |ranks| {
        if !has_printed(ranks, "[job-inactive]") {
            return false;
        }
        let (_, places) = status(ranks, "--hang");
        let (place, stack) = (" at heat2d+0x", "main (heat2d+0x");
        let words = ["rank 1 ", "stopped (SIGSTOP)", " in MPI_", place, stack];
        assert!(words.iter().all(|word| places.contains(word)), "{places}");
        processes::send(ranks[&1].pid, Signal::CONT)
    });
    let outcome = heat2d().assert_undisturbed(job);
    outcome.assert_line(&[
        "rank 1 on ",
        "is stopped (SIGSTOP)",
        "replace 1",
        "[rank-inactive]",
    ]);
    outcome.assert_line(&[
        "nothing has moved for 2.0 s: ",
        " in MPI_",
        "rank 1 on ",
        "is stopped (SIGSTOP)",
        "[job-inactive]",
    ]);
    outcome.assert_taken_over(&[]);
}

#[test]
fn a_rank_is_replaced_on_request() {
    let job = stopped(heat2d().job(), |ranks| {
        let (name, _) = status(ranks, "--hang");
        let printed = understudy(&["replace", "1", "--job", &name]);
        assert!(printed.ends_with("is being replaced\n"), "{printed}");
        true
    });
    let outcome = heat2d().assert_undisturbed(job);
    outcome.assert_line(&["rank 1 on ", "[replacement-requested]"]);
    assert_replaced(&outcome);
}

#[test]
fn a_stopped_rank_is_replaced_if_this_is_set() {
    let job = heat2d().job().env("UNDERSTUDY_HANG_AFTER", "2s");
    let job = job.env("UNDERSTUDY_ON_HANG", "replace");
    let job = stopped(job, |ranks| has_printed(ranks, "[recovered]"));
    let outcome = heat2d().assert_undisturbed(job);
    outcome.assert_line(&["rank 1 on ", "it is killed and replaced", "[rank-inactive]"]);
    assert_replaced(&outcome);
}

/// Stops a process for nine tenths of the time, until the flag is set.
fn slow_down(pid: u32, is_enough: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        while !is_enough.load(Ordering::Relaxed) && processes::send(pid, Signal::STOP) {
            std::thread::sleep(Duration::from_millis(90));
            processes::send(pid, Signal::CONT);
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// Rank 0 computes while all others wait for it.
#[test]
fn a_crawling_rank_is_reported_and_not_replaced() {
    let job = || Job::new(paths::test_program("aloof"), &["3", "2000"]);
    let slow = job().env("UNDERSTUDY_HANG_AFTER", "1s");
    let is_enough = Arc::new(AtomicBool::new(false));
    let mut is_slow = false;
    let slow = slow
        .env("UNDERSTUDY_ON_HANG", "replace")
        .watch(move |ranks| {
            if !is_slow && living_and_lines(ranks, "aloof").1 >= 1 {
                is_slow = true;
                slow_down(ranks[&0].pid, Arc::clone(&is_enough));
            }
            if !has_printed(ranks, "[rank-inactive]") {
                return false;
            }
            let (_, places) = status(ranks, "--hang");
            assert!(places.contains("crawling"), "{places}");
            is_enough.store(true, Ordering::Relaxed);
            true
        });
    let outcome = slow.run();
    outcome.assert_success();
    outcome.assert_like(&native(job()), &["aloof.log"]);
    outcome.assert_line(&["rank 0 on ", " is crawling", "replace 0", "[rank-inactive]"]);
    let reports = outcome.stderr.matches("[rank-inactive]").count();
    outcome.check(reports == 1, "not exactly one line names the rank");
    outcome.assert_taken_over(&[]);
    outcome.assert_nothing_left();
}

#[test]
fn a_blocked_rank_is_reported() {
    let program = || paths::test_program("blocked");
    let job = Job::new(program(), &["block"]).env("UNDERSTUDY_HANG_AFTER", "2s");
    let outcome = job
        .watch(|ranks| {
            if !has_printed(ranks, "[rank-inactive]") {
                return false;
            }
            let (_, places) = status(ranks, "--hang");
            assert!(places.contains("rank 1 "), "{places}");
            assert!(places.contains("blocked in the kernel"), "{places}");
            let work = format!("/proc/{}/cwd/release", ranks[&0].pid);
            std::fs::write(work, "").is_ok()
        })
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(Job::new(program(), &[])), &[]);
    outcome.assert_line(&["rank 1 on ", " is blocked in the kernel", "[rank-inactive]"]);
    outcome.assert_taken_over(&[]);
}

/// Worker 2 waits for a message that no worker sends, also after each recovery.
#[test]
fn a_rank_that_hangs_repeatedly_ends_the_job() {
    let job = Job::new(paths::test_program("mismatch"), &["4", "10"]);
    let job = job
        .env("UNDERSTUDY_HANG_AFTER", "0.5s")
        .env("UNDERSTUDY_ON_HANG", "replace");
    let outcome = job.run();
    outcome.assert_status(65);
    outcome.assert_line(&[
        " 3 ranks are in MPI_Barrier at mismatch+0x",
        "rank 2 on ",
        " is in MPI_Recv at mismatch+0x",
        "[job-inactive]",
    ]);
    outcome.assert_line(&["has hung 3 times at the same place", "[hang-repeats]"]);
    outcome.assert_nothing_left();
}
