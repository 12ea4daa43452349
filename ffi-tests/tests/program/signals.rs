//! Signals for all ranks, as from a batch system, together with a failure.

use ffi_tests::living_processes::Ranks;
use ffi_tests::{Job, paths, processes, variants};
use std::path::Path;
use std::time::Duration;

const WORKERS: u32 = 3;
/// The worker that fails.
const VICTIM: u32 = 1;
/// Time between the signal and the failure that follows the signal.
const DELAY_BEFORE_KILL: Duration = Duration::from_millis(300);

fn job_of(program: impl AsRef<Path>, arguments: &[&str]) -> Job {
    Job::new(program, arguments)
        .workers(WORKERS)
        .interval("off")
}

fn job(arguments: &[&str]) -> Job {
    job_of(paths::test_program("warned"), arguments)
}

/// True if the program is ready for the signal.
fn is_ready(ranks: &Ranks) -> bool {
    let work = std::fs::read(format!("/proc/{}/cwd/../stdout", ranks[&0].pid));
    work.is_ok_and(|text| text.ends_with(b"ready\n"))
}

/// Sends SIGTERM to all guardians, as a batch system would.
fn terminate_guardians(ranks: &Ranks) {
    for rank in ranks.values() {
        assert!(processes::terminate(rank.parent), "a guardian has exited");
    }
}

fn assert_all_signalled(job: Job) {
    let outcome = job.run();
    outcome.assert_success();
    outcome.check(
        outcome.stdout == b"ready\nall were told\n",
        "a rank has not received the signal",
    );
    outcome.assert_replaced(&[VICTIM]);
    outcome.assert_nothing_left();
}

/// A worker fails after all ranks have received SIGTERM; all ranks end regularly.
///
/// The variable that the handler set is rolled back, so understudy must deliver the signal again.
#[test]
fn a_worker_fails_when_all_were_signalled() {
    let of_mpich = paths::mpich_program("warned").map(|program| job_of(program, &[]).of_mpich());
    for job in [job(&[])].into_iter().chain(of_mpich) {
        assert_all_signalled(job.watch(|ranks| {
            let is_ready = is_ready(ranks);
            if is_ready {
                terminate_guardians(ranks);
                std::thread::sleep(DELAY_BEFORE_KILL);
                processes::kill(ranks[&VICTIM].pid);
            }
            is_ready
        }));
    }
}

/// SIGTERM arrives at different times of a recovery; no rank misses the signal.
#[test]
fn all_are_signalled_while_a_worker_is_replaced() {
    for after in variants([10, 0, 3, 20, 40].map(Duration::from_millis), 2) {
        assert_all_signalled(job(&[]).watch(move |ranks| {
            let is_ready = is_ready(ranks);
            if is_ready {
                processes::kill(ranks[&VICTIM].pid);
                std::thread::sleep(after);
                terminate_guardians(ranks);
            }
            is_ready
        }));
    }
}

/// SIGTERM arrives at a spare, whose program has not installed a handler; the job continues.
#[test]
fn all_with_handlers_set_after_mpi_init_are_signalled() {
    let outcome = job(&["late"]).watch(|ranks| {
        let is_ready = is_ready(ranks);
        if is_ready {
            terminate_guardians(ranks);
        }
        is_ready
    });
    let outcome = outcome.run();
    outcome.assert_success();
    outcome.check(
        outcome.stdout == b"ready\nall were told\n",
        "a rank has not received the signal",
    );
    outcome.assert_nothing_left();
}

/// Signals that the program blocks stay pending in all threads, with and without a failure.
///
/// The expected output is that of a run under understudy: in a native run, a thread of the MPI
/// library receives the signal, and the program is killed.
#[test]
fn blocked_signals_wait_for_the_program() {
    let job = || {
        Job::new(paths::test_program("blocked_signals"), &["16"])
            .workers(2)
            .interval("5calls")
    };
    let undisturbed = job().run();
    undisturbed.assert_success();
    undisturbed.assert_checks();
    for (worker, call) in variants([(1, 20), (0, 31)], 1) {
        let fault = format!("kill rank={worker} at=call:{call}");
        let outcome = job().fault(&fault).run();
        outcome.assert_all_recovered(&undisturbed, &[worker]);
    }
}
