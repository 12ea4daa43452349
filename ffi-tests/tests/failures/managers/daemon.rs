//! A job beside a daemon, which may choose the spare.
//!
//! No action or message of the daemon can make a recovery wrong.

use ffi_tests::daemon_process::{Daemon, imitate_daemon, private_directory};
use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Outcome, Trigger, paths, processes, variants};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use understudy_formats::events::{Kind, ProcessNumber, SpareChoice, Worker};
use understudy_wire::spares::{Lease, LeaseToken};
use understudy_wire::{Answer, encode};

const VICTIM: u32 = 1;
const WORKERS: u32 = 4;
const SPARES: u32 = 2;
const FAULT: &str = "kill rank=1 at=commit.end epoch=4; pretend no-memfd";

fn job(case: &TestProgram, socket: &Path) -> Job {
    let job = case.job().spares(SPARES).interval("60calls");
    job.env("UNDERSTUDY_DAEMON", &socket.to_string_lossy())
}

/// Fails unless the job has recovered, whatever the daemon has done.
///
/// Returns the choice of the spare, and the reason if the built-in rule was used instead of the
/// daemon's choice.
fn judge(case: &TestProgram, outcome: &Outcome) -> (SpareChoice, Option<String>) {
    outcome.assert_success();
    outcome.assert_like(&native(case.job()), case.files);
    outcome.assert_taken_over(&[VICTIM]);
    outcome.assert_nothing_left();
    let chosen = outcome
        .event_ranks()
        .into_iter()
        .flat_map(|rank| outcome.events(rank))
        .filter_map(|record| match record.kind {
            Kind::SparesChosen {
                choices, reason, ..
            } => Some((choices, reason)),
            _ => None,
        });
    // A late report of a failure can cause another attempt at the recovery, with another choice.
    let Some((choices, reason)) = chosen.last() else {
        panic!(
            "no event file reports the choice of a spare\n{}",
            outcome.describe()
        );
    };
    println!("{choices:?} {reason:?}");
    outcome.check(
        choices.len() == 1 && choices[0].worker == Worker(VICTIM),
        "not exactly the victim was assigned",
    );
    (choices[0].clone(), reason)
}

fn choice(rank: u32, by_daemon: bool) -> SpareChoice {
    SpareChoice {
        worker: Worker(VICTIM),
        rank: ProcessNumber(rank),
        by_daemon,
    }
}

/// Number of sockets of a process that the program could reach (descriptors below 600).
fn low_sockets(pid: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let is_low = |entry: &std::fs::DirEntry| {
        entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .is_some_and(|fd: u32| fd < 600)
    };
    let sockets = entries.filter(|entry| {
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        is_low(entry) && target.to_string_lossy().starts_with("socket:")
    });
    sockets.count()
}

#[test]
#[ignore = "a variant: make test-all"]
fn the_daemon_chooses_and_two_jobs_do_not_mix() {
    let daemon = Daemon::start();
    // Two spares of another job with equal ranks.
    let _strangers = [
        daemon.unrelated_spare("another job", 4),
        daemon.unrelated_spare("another job", 5),
    ];
    let case = programs::short_heat2d();
    let (socket, low) = (daemon.socket(), Rc::new(RefCell::new(None)));
    let (reported, daemon) = (Rc::clone(&low), Rc::new(daemon));
    let watched = Rc::clone(&daemon);
    let outcome = job(&case, &socket)
        .fault(FAULT)
        .watch(move |ranks: &BTreeMap<u32, processes::Process>| {
            let is_there = watched.spares().len() == 4;
            if is_there {
                *reported.borrow_mut() = Some(
                    (WORKERS..WORKERS + SPARES)
                        .map(|rank| low_sockets(ranks[&rank].pid))
                        .sum(),
                );
            }
            is_there
        })
        .run();
    let (chosen, reason) = judge(&case, &outcome);
    outcome.check(
        chosen == choice(WORKERS, true),
        &format!("{chosen:?}, {reason:?}"),
    );
    outcome.check(
        *low.borrow() == Some(0_usize),
        "a spare's connection is among the program's descriptors",
    );
    let status = daemon.status();
    let events = |is_it: &dyn Fn(&str) -> bool| {
        let job = status
            .iter()
            .find(|job| is_it(&job.job))
            .expect("the daemon has both jobs");
        job.events
            .iter()
            .map(|event| event.what.clone())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let (own, other) = (
        events(&|job| job != "another job"),
        events(&|job| job == "another job"),
    );
    outcome.check(
        own.contains("rank 4 is worker 1 now") && own.contains("rank 5 has left"),
        &own,
    );
    outcome.check(
        !other.contains("leased") && !other.contains(" is worker "),
        &other,
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn without_a_daemon_the_built_in_rule_chooses() {
    let case = programs::short_heat2d();
    let directory = private_directory();
    let outcome = job(&case, &directory.path().join("nothing"))
        .fault(FAULT)
        .run();
    let (chosen, reason) = judge(&case, &outcome);
    let reason = reason.unwrap_or_default();
    outcome.check(
        chosen == choice(WORKERS, false) && reason.contains("No such file"),
        &reason,
    );
}

/// Name of a file for which rank 0 waits.
const SIGN: &str = "sign";

/// Returns a program that waits for a file, which exists from the beginning.
fn waiting() -> TestProgram {
    TestProgram {
        name: "waiting",
        files: &[],
        make: || Job::new(paths::test_program("waiting"), &[SIGN]).input(SIGN, ""),
        ..programs::heat2d()
    }
}

/// True if the victim has committed the first checkpoint.
///
/// Before that checkpoint, a failure restarts the job instead of causing a recovery. `pid` is any
/// process of the job.
fn is_protected(pid: u32) -> bool {
    let work = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    let commit = Trigger::Commit {
        rank: VICTIM,
        epoch: 1,
    };
    work.parent()
        .is_some_and(|root| commit.is_reached(&root.join("stdout"), &root.join("events")))
}

/// Calls `treat`, waits until the daemon has `spares_then` spares, and kills the victim.
///
/// Does not wait if `spares_then` is 0.
fn killed_after(
    treat: fn(&mut Daemon),
    spares_then: usize,
) -> (SpareChoice, Option<String>, Outcome) {
    let daemon = Rc::new(RefCell::new(Daemon::start()));
    let case = TestProgram {
        make: || Job::new(paths::test_program("waiting"), &[SIGN]),
        ..waiting()
    };
    let socket = daemon.borrow().socket();
    let (mut is_treated, watched) = (false, Rc::clone(&daemon));
    let watch = move |ranks: &BTreeMap<u32, processes::Process>| {
        let mut daemon = watched.borrow_mut();
        if !is_treated {
            if daemon.spares().len() == SPARES as usize && is_protected(ranks[&VICTIM].pid) {
                treat(&mut daemon);
                is_treated = true;
            }
            return false;
        }
        let is_time = spares_then == 0 || daemon.spares().len() == spares_then;
        if is_time {
            processes::kill(ranks[&VICTIM].pid);
            std::fs::write(format!("/proc/{}/cwd/{SIGN}", ranks[&0].pid), "")
                .expect("rank 0 waits");
        }
        is_time
    };
    let outcome = job(&case, &socket).watch(watch).run();
    let (chosen, reason) = judge(&waiting(), &outcome);
    (chosen, reason, outcome)
}

#[test]
fn a_daemon_may_be_killed_in_mid_job() {
    let (chosen, reason, outcome) = killed_after(Daemon::kill, 0);
    let reason = reason.unwrap_or_default();
    outcome.check(
        chosen == choice(WORKERS, false) && reason.starts_with("the daemon: "),
        &reason,
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn spares_register_with_a_restarted_daemon() {
    let (chosen, reason, outcome) = killed_after(Daemon::restart, SPARES as usize);
    outcome.check(
        chosen == choice(WORKERS, true),
        &format!("{chosen:?}, {reason:?}"),
    );
}

/// Runs a job with an imitated daemon, which always gives this answer.
fn run_with_answer(answer: Vec<u8>) -> (SpareChoice, String, Outcome) {
    let case = programs::short_heat2d();
    let directory = private_directory();
    let socket = directory.path().join("socket");
    imitate_daemon(&socket, answer);
    let outcome = job(&case, &socket).fault(FAULT).run();
    let (chosen, reason) = judge(&case, &outcome);
    (chosen, reason.unwrap_or_default(), outcome)
}

/// Encodes an answer with the rank that replaces each worker.
fn leases(assignments: &[(u32, u32)]) -> Vec<u8> {
    let lease = |&(worker, rank): &(u32, u32)| Lease {
        worker: Worker(worker),
        rank: ProcessNumber(rank),
        token: LeaseToken(1),
    };
    encode(&Answer::Leased(assignments.iter().map(lease).collect())).expect("short enough")
}

#[test]
fn messages_of_a_daemon_are_checked() {
    // The built-in rule would choose rank 4, so rank 5 shows that a correct answer is used.
    let (chosen, reason, outcome) = run_with_answer(leases(&[(VICTIM, 5)]));
    outcome.check(chosen == choice(5, true), &format!("{chosen:?}, {reason}"));
    let mut other_version = leases(&[(VICTIM, 5)]);
    other_version[4] += 1;
    let impossible = leases(&[(VICTIM, 0), (0, 5), (2, 4), (77, u32::MAX)]);
    let answers = [
        (
            impossible,
            "rank 0, which the daemon has named for worker 1",
        ),
        // An empty answer: the daemon never replies.
        (Vec::new(), "not completed within"),
        (
            leases(&[(VICTIM, VICTIM)]),
            "rank 1, which the daemon has named",
        ),
        (leases(&[(VICTIM, u32::MAX)]), "no living idle spare"),
        (other_version, "version"),
        (
            b"HTTP/1.1 418 I'm a teapot\r\n\r\n".to_vec(),
            "not the protocol",
        ),
    ];
    for (answer, why) in variants(answers, 2) {
        let (chosen, reason, outcome) = run_with_answer(answer);
        outcome.check(
            chosen == choice(WORKERS, false) && reason.contains(why),
            &format!("{why}: {reason}"),
        );
    }
}
