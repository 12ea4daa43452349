//! Node managers and hosts that stand still for a time.
//!
//! The job waits: no host is lost, and the output is byte-identical. A host that stands still for
//! too long is killed by its own kernel before the job continues without it.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Kill, Launcher, Outcome, Trigger, Verdicts, paths, processes};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Two workers on each of two hosts, and a slot for the spare.
const SLOTS: [u32; 2] = [2, 3];
const FILES: [&str; 4] = ["diary.0", "diary.1", "diary.2", "diary.3"];

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Seconds for which a first host's manager may be stopped without a report.
const LONGEST_UNREPORTED: f64 = 20.0;

/// A program of which no rank may run twice.
fn diaries() -> TestProgram {
    TestProgram {
        name: "diaries",
        tail: 0,
        files: &FILES,
        make: || Job::new(paths::test_program("diaries"), &["20", "20"]).hosts(&SLOTS),
        ..programs::heat2d()
    }
}

/// Disturbance of a host, or of its node manager.
#[derive(Clone, Copy, Debug)]
enum Stall {
    /// The manager of this host is stopped.
    Manager(usize, f64),
    /// The second host is cut off, and its processes are stopped for a shorter time.
    Host { frozen: f64, cut_off: f64 },
}

impl Stall {
    fn of(self, job: Job) -> Job {
        job.disturb_hosts(Trigger::Lines(3), move |hosts| match self {
            Stall::Manager(host, time) => hosts.stall_manager(host, seconds(time)),
            Stall::Host { frozen, cut_off } => hosts.freeze(1, seconds(frozen), seconds(cut_off)),
        })
    }

    fn time(self) -> f64 {
        match self {
            Stall::Manager(_, time) | Stall::Host { cut_off: time, .. } => time,
        }
    }
}

/// Fails if one of these stalls has disturbed a job.
///
/// The jobs run concurrently.
fn assert_waited_for(launcher: Launcher, stalls: &[Stall], kill: Option<Kill>, replaced: &[u32]) {
    let undisturbed = native(diaries().job());
    let job = |stall: &Stall| {
        let job = stall.of(diaries().job().launched_by(launcher));
        match kill {
            Some(kill) => job.kill(kill),
            None => job,
        }
    };
    let mut verdicts = Verdicts::default();
    for (stall, outcome) in stalls.iter().zip(Job::run_each(stalls, job)) {
        println!("{stall:?}: {:?}", outcome.wall);
        verdicts.judge(&format!("{stall:?}"), || {
            outcome.assert_success();
            outcome.assert_like(&undisturbed, &FILES);
            outcome.assert_taken_over(replaced);
            outcome.assert_nothing_left();
            outcome.check(
                !outcome.stderr.contains("is lost"),
                "a host has counted as lost",
            );
            outcome.check(
                outcome.wall >= seconds(stall.time()),
                "the job has ended before the stall",
            );
            // Workers that were stopped themselves are not to blame, unless they run on without
            // their network.
            let was_stopped =
                matches!(stall, Stall::Host { frozen, cut_off } if cut_off - frozen < 1.0);
            let is_blamed = |line: &&str| line.contains("n2)") && line.contains("[no-checkpoint]");
            outcome.check(
                !was_stopped || !outcome.own_lines().iter().any(is_blamed),
                "a stopped worker is blamed for the missing checkpoint",
            );
            // The leader tells what it waits for; of its own manager, the guardians do.
            let (silent, answers) = match stall {
                Stall::Manager(0, ..LONGEST_UNREPORTED) => return,
                Stall::Manager(0, _) => ("[manager-silent]", "[manager-answers]"),
                _ => ("[host-silent]", "[host-answers]"),
            };
            outcome.assert_line(&[silent]);
            outcome.assert_line(&[answers]);
        });
    }
    verdicts.assert_all_good();
}

/// The manager of each host is stopped; one host stands still and is cut off.
#[test]
fn managers_and_hosts_may_stall() {
    if !Hosts::are_possible() {
        return;
    }
    // TCP sends again 6.2 s after its first attempt, and then not before 12.6 s.
    let host = Stall::Host {
        frozen: 5.0,
        cut_off: 5.5,
    };
    let stalls = [Stall::Manager(0, 5.0), Stall::Manager(1, 7.0), host];
    assert_waited_for(Launcher::Ckptd, &stalls, None, &[]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn managers_and_hosts_may_stall_for_half_a_minute() {
    if !Hosts::are_possible() {
        return;
    }
    let host = Stall::Host {
        frozen: 20.0,
        cut_off: 30.0,
    };
    let stalls = [Stall::Manager(0, 30.0), Stall::Manager(1, 30.0), host];
    assert_waited_for(Launcher::Ckptd, &stalls, None, &[]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn managers_and_hosts_may_stall_under_mpirun() {
    if !Hosts::are_possible() {
        return;
    }
    let host = Stall::Host {
        frozen: 5.0,
        cut_off: 5.5,
    };
    let stalls = [Stall::Manager(0, 7.0), Stall::Manager(1, 7.0), host];
    assert_waited_for(Launcher::Mpirun, &stalls, None, &[]);
}

/// A worker of each host fails while a manager is stopped; the recovery follows.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_fail_while_a_manager_stalls() {
    if !Hosts::are_possible() {
        return;
    }
    for worker in [1, 2] {
        let kill = Kill::at(worker, Trigger::Lines(4));
        let stalls = [Stall::Manager(0, 6.0), Stall::Manager(1, 6.0)];
        assert_waited_for(Launcher::Ckptd, &stalls, Some(kill), &[worker]);
    }
}

/// Time for which a silent host is waited for in the following tests.
const WAIT: Duration = Duration::from_secs(5);

/// Moments of a rank that stands still and of its host.
#[derive(Clone, Default)]
struct Moments {
    stopped: Rc<Cell<Option<Instant>>>,
    /// The stopped rank has continued or died.
    awake: Rc<Cell<Option<Instant>>>,
    /// The host has counted as lost.
    lost: Rc<Cell<Option<Instant>>>,
}

impl Moments {
    /// Observes a rank, and the standard error of its job.
    fn observe(&self, job: Job, rank: u32) -> Job {
        let moments = self.clone();
        job.observe(move |ranks| {
            let note = |moment: &Cell<Option<Instant>>| {
                moment.set(moment.get().or_else(|| Some(Instant::now())));
            };
            let is_stopped = processes::state(ranks[&rank].pid).as_deref() == Some("T");
            if is_stopped {
                note(&moments.stopped);
            } else if moments.stopped.get().is_some() {
                note(&moments.awake);
            }
            let root = ffi_tests::living_processes::beside_work(ranks[&0].pid);
            let errors = root.and_then(|root| std::fs::read_to_string(root.join("stderr")).ok());
            if errors.is_some_and(|text| text.contains("[host-lost]")) {
                note(&moments.lost);
            }
        })
    }

    /// Fails unless the kernel has killed the stopped process before the loss of its host.
    ///
    /// The margin is a second, of which processor time for this process may take a part.
    fn assert_fenced(&self, outcome: &Outcome) {
        let times = self.awake.get().zip(self.lost.get());
        let margin = times.and_then(|(awake, lost)| lost.checked_duration_since(awake));
        println!("killed {margin:?} before the loss");
        outcome.check(
            margin.is_some(),
            "the host has counted as lost before its processes were killed",
        );
    }
}

/// Fails unless the kernel kills the stopped processes, and workers are replaced afterwards.
fn assert_killed_by_the_kernel(disturb: impl Fn(&Hosts) -> bool + 'static) {
    let case = programs::short_heat2d();
    let undisturbed = native(case.job().hosts(&SLOTS));
    let moments = Moments::default();
    let job = case.job().hosts(&SLOTS).launched_by(Launcher::Ckptd);
    let job = job.env("UNDERSTUDY_NODE_TIMEOUT", "5s");
    let job = job.disturb_hosts(Trigger::Lines(15), disturb);
    let outcome = moments.observe(job, 3).run();
    outcome.assert_success();
    outcome.assert_like_after(&undisturbed, case.files, case.canonical);
    outcome.assert_nothing_left();
    moments.assert_fenced(&outcome);
    let time = outcome.slowest_recovery();
    outcome.check(
        time.is_some_and(|time| time >= WAIT),
        &format!("the recovery time {time:?} does not contain the silence of the host"),
    );
}

/// A host is cut off and all its processes are stopped.
///
/// Only the kernel can kill the processes.
#[test]
fn a_frozen_host_is_killed_by_its_kernel() {
    if !Hosts::are_possible() {
        return;
    }
    // The host goes on after its loss, so that its remaining processes clean up.
    let frozen = WAIT + Duration::from_secs(2);
    let cut_off = Duration::from_secs(600);
    assert_killed_by_the_kernel(move |hosts| hosts.freeze(1, frozen, cut_off));
}
