//! Observations from outside: an idle spare, event files after a recovery, a debugger's backtrace.

use ffi_tests::daemon_process::Daemon;
use ffi_tests::native_runs::native;
use ffi_tests::programs::heat2d;
use ffi_tests::{Job, Kill, Requirement, Trigger, paths, plain_commands, processes, skip};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use understudy_formats::events::RecoveryStage;

/// Name of the file for which rank 0 waits.
const SIGN: &str = "sign";

fn idle() -> Job {
    let job = Job::new(paths::test_program("waiting"), &[SIGN]);
    job.workers(2).interval("1s")
}

#[test]
fn an_idle_spare_uses_less_than_a_thousandth_of_a_core() {
    measure_spare(idle());
}

/// The spare sends a heartbeat to the daemon every 2 s.
#[test]
#[ignore = "a variant: make test-all"]
fn beside_a_daemon_an_idle_spare_uses_less_than_a_thousandth_of_a_core() {
    let daemon = Daemon::start();
    measure_spare(idle().env("UNDERSTUDY_DAEMON", &daemon.socket().to_string_lossy()));
}

fn measure_spare(job: Job) {
    const SPARE: u32 = 2;
    /// Time after the start until the spare has entered MPI_Init.
    const START_TIME: Duration = Duration::from_millis(500);
    const SPAN: Duration = Duration::from_secs(2);
    let measured = Arc::new(Mutex::new(None));
    let result = Arc::clone(&measured);
    let (seen, mut begin): (Instant, Option<(Instant, Duration)>) = (Instant::now(), None);
    let mut first_seen = None;
    let outcome = job
        .watch(move |ranks| {
            let release = || {
                let sign = format!("/proc/{}/cwd/{SIGN}", ranks[&0].pid);
                std::fs::write(sign, "").expect("rank 0 waits");
                true
            };
            let (now, Some(time)) = (Instant::now(), processes::processor_time(ranks[&SPARE].pid))
            else {
                return release();
            };
            let first_seen = *first_seen.get_or_insert(now.max(seen));
            if now.duration_since(first_seen) < START_TIME {
                return false;
            }
            let (since, used) = *begin.get_or_insert((now, time));
            let passed = now.duration_since(since);
            if passed < SPAN {
                return false;
            }
            *result.lock().expect("no thread has panicked") = Some((passed, time - used));
            release()
        })
        .run();
    outcome.assert_success();
    let measured = *measured.lock().expect("no thread has panicked");
    let (passed, used) =
        measured.unwrap_or_else(|| panic!("the job ended too early\n{}", outcome.describe()));
    let share = used.as_secs_f64() / passed.as_secs_f64();
    println!(
        "an idle spare uses {:.3}% of a core ({used:?} in {passed:?})",
        share * 100.0
    );
    outcome.check(
        share < 0.001,
        &format!("an idle spare uses {:.3}% of a core", share * 100.0),
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn after_a_recovery_the_event_files_are_complete() {
    const VICTIM: u32 = 2;
    let case = heat2d();
    let outcome = case.job().kill(Kill::at(VICTIM, Trigger::Lines(20))).run();
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_taken_over(&[VICTIM]);
    let directory = outcome.event_directory();
    let report = plain_commands::run(
        paths::product("understudy"),
        &["events", &directory.to_string_lossy()],
        &[],
        false,
    );
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    outcome.check(
        report.status.success(),
        &format!("`understudy events` ends with {}:\n{text}", report.status),
    );
    let assert_has = |what: &str| {
        outcome.check(
            text.contains(what),
            &format!("`understudy events` does not print `{what}`:\n{text}"),
        )
    };
    assert_has(&format!("failure of rank {VICTIM} detected"));
    assert_has(&format!("takes over as worker {VICTIM}"));
    assert_has(&format!("worker {VICTIM} by rank 4 (spare 0)"));
    RecoveryStage::ALL
        .iter()
        .for_each(|stage| assert_has(&format!("recovery 1: {stage} done in ")));
    assert_has("resumes from checkpoint");
    // Every rank except the failed one has recorded its end.
    for rank in (0..5).filter(|&rank| rank != VICTIM) {
        let ended = outcome
            .events(rank)
            .iter()
            .any(|record| matches!(record.kind, understudy_formats::events::Kind::End { .. }));
        outcome.check(ended, &format!("rank {rank} has recorded no end"));
    }
    let json = plain_commands::run(
        paths::product("understudy"),
        &["events", "--json", &directory.to_string_lossy()],
        &[],
        false,
    );
    outcome.check(
        json.status.success() && json.stdout.starts_with(b"{"),
        "`understudy events --json` fails",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_debugger_sees_the_program_through_a_thunk() {
    if paths::on_path("gdb").is_none() {
        skip(Requirement::Tools, "there is no gdb on the PATH");
        return;
    }
    const WAITING: u32 = 1;
    let backtrace = Arc::new(Mutex::new(String::new()));
    let result = Arc::clone(&backtrace);
    let mut started = None;
    let outcome = Job::new(paths::test_program("waiting"), &["8"])
        .workers(2)
        .watch(move |ranks| {
            // Time to enter MPI_Recv.
            let started = *started.get_or_insert_with(Instant::now);
            if started.elapsed() < Duration::from_millis(1500) {
                return false;
            }
            let pid = ranks[&WAITING].pid.to_string();
            let mut gdb = Command::new("gdb");
            gdb.args([
                "-nx",
                "-batch",
                "-ex",
                "set pagination off",
                "-ex",
                "bt",
                "-p",
                &pid,
            ])
            .env_remove("LD_PRELOAD");
            let output = gdb.stdin(std::process::Stdio::null()).output();
            if let (Ok(output), Ok(mut result)) = (output, result.lock()) {
                *result = String::from_utf8_lossy(&output.stdout).into_owned()
                    + &String::from_utf8_lossy(&output.stderr);
            }
            true
        })
        .run();
    outcome.assert_success();
    let backtrace = backtrace.lock().expect("no thread has panicked");
    if backtrace.contains("ptrace: Operation not permitted") {
        skip(Requirement::Tools, "this system does not let gdb attach");
        return;
    }
    let frame = |name: &str| {
        backtrace
            .lines()
            .any(|line| line.starts_with('#') && line.contains(name))
    };
    for name in ["MPI_Recv (", " wait_for_message (", " main ("] {
        outcome.check(
            frame(name),
            &format!("the backtrace has no frame of `{name}`:\n{backtrace}"),
        );
    }
}
