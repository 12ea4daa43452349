//! Guardians and node managers that are stopped by SIGSTOP.
//!
//! The job waits for them; a process that does not answer for too long is killed and replaced.

use ffi_tests::living_processes::{Ranks, has_printed, living_and_lines, manager};
use ffi_tests::programs::heat2d;
use ffi_tests::{Job, Launcher, Outcome, processes};
use rustix::process::Signal;

/// Number of printed lines after which a process is stopped.
const LINES: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Stopped {
    Manager,
    /// The guardian of rank 1.
    Guardian,
    /// Both of them.
    Both,
}

impl Stopped {
    /// Stops the process, and returns its number.
    fn stop(self, first: &Ranks) -> Option<u32> {
        let guardian = first[&1].parent;
        let pid = match self {
            Stopped::Guardian => guardian,
            Stopped::Manager | Stopped::Both => manager(first)?,
        };
        processes::send(pid, Signal::STOP);
        if let Stopped::Both = self {
            processes::send(guardian, Signal::STOP);
        }
        Some(pid)
    }

    /// Makes a job in which this process is stopped.
    ///
    /// Then calls `then` until it returns true.
    fn job(self, launcher: Launcher, mut then: impl FnMut(&Ranks, u32) -> bool + 'static) -> Job {
        let mut stopped = None;
        let job = heat2d().job().launched_by(launcher);
        let job = job.env("UNDERSTUDY_NODE_TIMEOUT", "5s");
        job.watch(move |first| {
            if stopped.is_none() && living_and_lines(first, "heat2d").1 >= LINES {
                stopped = self.stop(first);
            }
            stopped.is_some_and(|pid| then(first, pid))
        })
    }
}

/// Fails unless one line of understudy has this identifier.
fn assert_once(outcome: &Outcome, id: &str) {
    let count = outcome.stderr.matches(&format!("[{id}]")).count();
    outcome.check(count == 1, &format!("{count} lines have [{id}]"));
}

#[test]
fn a_stopped_manager_is_reported_and_replaced() {
    let job = Stopped::Manager.job(Launcher::Mpirun, |first, _| {
        has_printed(first, "[manager-replaced]")
    });
    let outcome = heat2d().assert_undisturbed(job);
    assert_once(&outcome, "manager-silent");
    assert_once(&outcome, "manager-replaced");
    outcome.assert_taken_over(&[]);
}

#[test]
fn a_stopped_guardian_is_reported_and_replaced() {
    let job = Stopped::Guardian.job(Launcher::Ckptd, |first, _| {
        has_printed(first, "[recovered]")
    });
    let outcome = heat2d().assert_undisturbed(job);
    outcome.assert_line(&["guardian 1 on ", "after 5 s", "[guardian-silent]"]);
    assert_once(&outcome, "guardian-silent");
    assert_once(&outcome, "guardian-killed");
    outcome.assert_taken_over(&[1]);
}

/// The new manager waits for the guardian, which does not report to it.
///
/// The guardian and the old manager had the replicas of rank 1, so a buddy needs others.
#[test]
#[ignore = "a variant: make test-all"]
fn a_manager_and_a_guardian_may_be_stopped_at_once() {
    let job = Stopped::Both.job(Launcher::Ckptd, |first, _| {
        has_printed(first, "[recovered]")
    });
    let outcome = heat2d().assert_undisturbed(job.env("UNDERSTUDY_COPIES", "1"));
    assert_once(&outcome, "manager-replaced");
    assert_once(&outcome, "guardian-killed");
    outcome.assert_taken_over(&[1]);
}

/// Under `mpirun` a stopped guardian is never killed, because `mpirun` would end the job.
#[test]
fn a_guardian_and_a_manager_may_be_stopped_for_a_while() {
    let rows = [
        (Stopped::Manager, Launcher::Mpirun),
        (Stopped::Guardian, Launcher::Mpirun),
        (Stopped::Guardian, Launcher::Ckptd),
    ];
    let outcomes = Job::run_each(&rows, |&(stopped, launcher)| {
        let job = stopped.job(launcher, |first, pid| {
            has_printed(first, "-silent]") && processes::send(pid, Signal::CONT)
        });
        // Silence is reported after half of this time.
        job.env("UNDERSTUDY_NODE_TIMEOUT", "10s")
    });
    let undisturbed = ffi_tests::native_runs::native(heat2d().job());
    for ((stopped, launcher), outcome) in rows.iter().zip(outcomes) {
        println!("{stopped:?} under {launcher:?}: {:?}", outcome.wall);
        outcome.assert_success();
        outcome.assert_like(&undisturbed, heat2d().files);
        outcome.assert_nothing_left();
        outcome.assert_taken_over(&[]);
        let name = match stopped {
            Stopped::Manager => "manager",
            Stopped::Guardian | Stopped::Both => "guardian",
        };
        assert_once(&outcome, &format!("{name}-silent"));
        assert_once(&outcome, &format!("{name}-answers"));
        let is_killed = ["-killed]", "-replaced]"].map(|id| outcome.stderr.contains(id));
        outcome.check(is_killed == [false; 2], "a process was killed");
    }
}
