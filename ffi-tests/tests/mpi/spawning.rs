//! Programs that spawn processes (MPI 4.1, 11.8).
//!
//! Spawned processes run without understudy, and are spawned again after a failure.

use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::processes::{self, Process};
use ffi_tests::{Job, Launcher, Trigger, is_thorough, paths, variants};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use understudy_formats::events::{EventReader, Kind, Record};

fn job(program: &Path, steps: &str, way: Option<&str>) -> Job {
    rounds("3", program, steps, way)
}

fn rounds(rounds: &str, program: &Path, steps: &str, way: Option<&str>) -> Job {
    let arguments: Vec<&str> = [rounds, steps].into_iter().chain(way).collect();
    Job::new(program, &arguments).workers(3).interval("10calls")
}

/// A test program of MPICH, if thorough and if MPICH is installed.
fn mpich_program(name: &str) -> Option<PathBuf> {
    is_thorough().then(|| paths::mpich_program(name)).flatten()
}

/// Tests a job with Open MPI; if thorough, also with MPICH if installed.
fn with_each(test: impl Fn(&dyn Fn(&str, Option<&str>) -> Job)) {
    // Two processes of different jobs do not share memory: Open MPI connects them by TCP.
    test(&|steps, way| job(&paths::test_program("spawning"), steps, way).tcp());
    if let Some(program) = mpich_program("spawning") {
        test(&|steps, way| job(&program, steps, way).of_mpich());
    }
}

/// Tests programs with windows of workers and spawned processes, like [`with_each`].
fn with_windows_of_each(test: impl Fn(&dyn Fn() -> Job)) {
    let job = |program: &Path| {
        Job::new(program, &["2", "1"])
            .workers(3)
            .interval("10calls")
    };
    test(&|| job(&paths::test_program("reaching")).tcp());
    if let Some(program) = mpich_program("reaching") {
        test(&|| job(&program).of_mpich());
    }
}

fn guardian_of(rank: u32, ranks: &BTreeMap<u32, Process>) -> Option<u32> {
    processes::parent(ranks.get(&rank)?.pid)
}

/// The guardian of rank 0, which starts the spawned processes.
fn guardian(ranks: &BTreeMap<u32, Process>) -> Option<u32> {
    guardian_of(0, ranks)
}

/// Finds a process that the program has spawned.
fn spawned(guardian: u32) -> Option<u32> {
    processes::all().find(|&pid| {
        let [command, _] = processes::words(pid);
        processes::parent(pid) == Some(guardian)
            && command.get(1).is_some_and(|word| word == "child")
    })
}

/// Third argument of the program: none, or `connected`, which keeps the last connection.
const CONNECTIONS: [Option<&str>; 2] = [None, Some("connected")];

#[test]
fn spawned_processes_do_as_without_understudy() {
    with_each(|job| {
        for way in variants(CONNECTIONS, 1) {
            let outcome = job("40", way).run();
            outcome.assert_success();
            outcome.assert_same_lines(&native(job("40", way)));
            outcome.assert_nothing_left();
        }
    });
}

/// Spawned processes of the second program are not confused with those of the first.
///
/// A native run has one program: Open MPI 5 sometimes hangs in the second.
#[test]
fn each_program_of_a_script_spawns_processes() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("script");
    paths::script(&script, "#!/bin/sh\n\"$@\" && \"$@\"\n");
    let once = || rounds("2", &paths::test_program("spawning"), "20", None).tcp();
    let outcome = once().started_by(&script).run();
    outcome.assert_success();
    outcome.assert_lines_times(2, &native(once()));
    outcome.assert_nothing_left();
}

/// Handles of the standard ABI are pointers, those of MPICH integers.
#[test]
fn programs_of_the_standard_abi_spawn_processes() {
    let Some(program) = paths::standard_program("spawning") else {
        return;
    };
    let make = || job(&program, "200", None).of_mpich();
    let outcome = make().fault("kill rank=1 at=call:615").run();
    outcome.assert_success();
    outcome.check(outcome.recoveries() == 1, "no process has failed");
    outcome.assert_same_lines(&native(make()));
    outcome.assert_nothing_left();
}

/// Rank 0 spawns processes on the first host, rank 1 on the second.
#[test]
fn workers_of_mpich_on_several_hosts_die() {
    let Some(program) = paths::mpich_program("spawning").filter(|_| Hosts::are_possible()) else {
        return;
    };
    let times = [
        "rank=1 at=call:700",
        "rank=0 at=call:40",
        "rank=2 at=call:52",
    ];
    for time in variants(times, 1) {
        // Without understudy, standard output has UCX's messages about incomplete requests.
        let make = || {
            let job = job(&program, "200", None).of_mpich().hosts(&[1, 4]);
            job.ucx_by_tcp().env("UCX_LOG_LEVEL", "fatal")
        };
        let outcome = make().fault(&format!("kill {time}")).run();
        outcome.assert_success();
        outcome.check(outcome.recoveries() == 1, "no process has failed");
        outcome.assert_same_lines(&native(make()));
        outcome.assert_nothing_left();
    }
}

/// Rank 0 is on the first of two hosts, the others on the second.
///
/// Open MPI's launcher does not support spawning in such a job, so the output is compared with
/// that of a job on one host.
fn assert_like_one_host(
    way: Option<&str>,
    steps: &str,
    disturb: impl FnOnce(Job) -> Job,
    recoveries: usize,
) {
    let make = || job(&paths::test_program("spawning"), steps, way).tcp();
    let outcome = disturb(make().hosts(&[1, 4])).run();
    outcome.assert_success();
    outcome.check(
        outcome.recoveries() == recoveries,
        "not as many recoveries as deaths",
    );
    outcome.assert_same_lines(&native(make()));
    outcome.assert_nothing_left();
}

/// The root is on another host in each round.
#[test]
fn workers_on_several_hosts_die() {
    if !Hosts::are_possible() {
        return;
    }
    let times = [
        "rank=0 at=call:40",
        "rank=1 at=call:700",
        "rank=2 at=call:52",
        "rank=0 at=call:1230",
    ];
    for way in variants(CONNECTIONS, 1) {
        if is_thorough() {
            assert_like_one_host(way, "200", |job| job, 0);
        }
        for time in variants(times, 1) {
            assert_like_one_host(way, "200", |job| job.fault(&format!("kill {time}")), 1);
        }
    }
}

/// A spawned process on the first or on the second host fails.
#[test]
#[ignore = "a variant: make test-all"]
fn a_spawned_process_on_one_of_several_hosts_dies() {
    if !Hosts::are_possible() {
        return;
    }
    for root in variants([1, 0], 1) {
        let kill = move |ranks: &BTreeMap<u32, Process>| {
            guardian_of(root, ranks)
                .and_then(spawned)
                .is_some_and(processes::kill)
        };
        assert_like_one_host(None, "600", |job| job.watch(kill), 1);
    }
}

/// The lost host has a worker, but no spawned process, and has printed nothing.
#[test]
fn a_host_may_be_lost_while_spawned_processes_are_connected() {
    if !Hosts::are_possible() {
        return;
    }
    for lines in variants([2, 5], 1) {
        let make = || job(&paths::test_program("spawning"), "600", None).tcp();
        let job = make().hosts(&[2, 1, 2]).launched_by(Launcher::Ckptd);
        let outcome = job.lose_host(Trigger::Lines(lines), 1).run();
        outcome.assert_success();
        outcome.check(outcome.recoveries() == 1, "no process has failed");
        outcome.assert_same_lines(&native(make()));
        outcome.assert_nothing_left();
    }
}

/// Failures in the first and the second round, and between two rounds.
///
/// Between two rounds, a group of the exited processes still exists.
#[test]
fn workers_die_while_spawned_processes_are_connected() {
    with_each(|job| {
        let times = [
            "rank=0 at=call:40",
            "rank=1 at=call:615",
            "rank=2 at=call:30",
            "rank=2 at=call:52",
            "rank=0 at=call:1230",
        ];
        for way in variants(CONNECTIONS, 1) {
            for time in variants(times, 1) {
                let outcome = job("200", way).fault(&format!("kill {time}")).run();
                outcome.assert_success();
                outcome.check(outcome.recoveries() == 1, "no process has failed");
                outcome.assert_same_lines(&native(job("200", way)));
                outcome.assert_nothing_left();
            }
        }
    });
}

/// Failures just after and just before the commit of the only checkpoint after MPI_Init.
///
/// Before the commit, the processes are spawned again. After the commit, the processes are not
/// spawned again, although the rank that would report their existence, rank 0, has failed. On
/// several hosts, rank 0 is moreover the only rank of the program on its host.
const AROUND_COMMIT: [&str; 2] = [
    "rank=0 at=commit.end epoch=2",
    "rank=0 at=capture.end epoch=2",
];

/// Fails unless workers recover from failures around a commit after they have disconnected.
fn assert_survives_around_commit(make: impl Fn() -> Job, disturb: impl Fn(Job) -> Job) {
    for time in AROUND_COMMIT {
        let outcome = disturb(make()).fault(&format!("kill {time}")).run();
        outcome.assert_success();
        outcome.check(outcome.recoveries() == 1, "no process has failed");
        outcome.assert_same_lines(&native(make()));
        outcome.assert_nothing_left();
    }
}

#[test]
fn a_worker_with_disconnected_spawned_processes_fails() {
    let make = |program: &Path| rounds("1", program, "200", Some("late"));
    assert_survives_around_commit(|| make(&paths::test_program("spawning")).tcp(), |job| job);
    if let Some(program) = mpich_program("spawning") {
        assert_survives_around_commit(|| make(&program).of_mpich(), |job| job);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_with_disconnected_spawned_processes_fails_on_several_hosts() {
    if Hosts::are_possible() {
        let make = || rounds("1", &paths::test_program("spawning"), "200", Some("late")).tcp();
        assert_survives_around_commit(make, |job| job.hosts(&[1, 4]));
    }
}

/// The main thread waits for the thread that spawns.
#[test]
fn workers_die_of_which_a_thread_has_spawned_processes() {
    with_each(|job| {
        let alone = native(job("200", Some("thread")));
        for time in variants(["rank=0 at=call:615", "rank=2 at=call:40"], 1) {
            let outcome = job("200", Some("thread"))
                .fault(&format!("kill {time}"))
                .run();
            outcome.assert_success();
            outcome.check(outcome.recoveries() == 1, "no process has failed");
            outcome.assert_same_lines(&alone);
            outcome.assert_nothing_left();
        }
    });
}

/// MPICH attaches a shared-memory segment for each spawned process.
#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_spawns_more_than_a_hundred_processes_one_after_the_other() {
    let Some(program) = paths::mpich_program("many") else {
        return;
    };
    let job = || Job::new(&program, &["140"]).of_mpich().workers(1);
    let outcome = job().fault("kill rank=0 at=call:60").run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(job()));
    outcome.assert_nothing_left();
}

#[test]
fn a_spawned_process_dies() {
    with_each(|job| {
        for way in variants(CONNECTIONS, 1) {
            let outcome = job("2000", way)
                .watch(|ranks| {
                    guardian(ranks)
                        .and_then(spawned)
                        .is_some_and(processes::kill)
                })
                .run();
            outcome.assert_success();
            outcome.check(outcome.recoveries() == 1, "no process has failed");
            outcome.assert_same_lines(&native(job("2000", way)));
            outcome.assert_nothing_left();
        }
    });
}

fn assert_ends_the_job(job: Job) {
    let outcome = job.run();
    outcome.assert_status(7);
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn windows_of_workers_and_spawned_processes() {
    with_windows_of_each(|job| {
        let outcome = job().run();
        outcome.assert_success();
        outcome.assert_same_lines(&native(job()));
        outcome.assert_nothing_left();
    });
}

/// Windows of each kind have members among workers and spawned processes.
///
/// At call 145, windows are the only connection to spawned processes. No cut is taken while such a
/// connection exists.
#[test]
fn workers_die_while_they_have_windows_with_spawned_processes() {
    with_windows_of_each(|job| {
        let alone = native(job());
        let times = [
            "rank=1 at=call:20",
            "rank=0 at=call:145",
            "rank=0 at=call:60",
            "rank=2 at=call:100",
            "rank=1 at=call:230",
        ];
        for time in variants(times, 1) {
            let outcome = job().fault(&format!("kill {time}")).run();
            outcome.assert_success();
            outcome.check(outcome.recoveries() == 1, "no process has failed");
            outcome.assert_same_lines(&alone);
            outcome.assert_nothing_left();
        }
    });
}

#[test]
fn a_spawned_process_may_end_the_job() {
    with_each(|job| assert_ends_the_job(job("200", Some("aborts"))));
}

/// Rank 1 (host 2) or rank 0 (host 1) has spawned the process.
#[test]
#[ignore = "a variant: make test-all"]
fn a_spawned_process_on_one_of_several_hosts_may_end_the_job() {
    if !Hosts::are_possible() {
        return;
    }
    for of_rounds in variants(["2", "3"], 1) {
        let job = rounds(
            of_rounds,
            &paths::test_program("spawning"),
            "200",
            Some("aborts"),
        );
        assert_ends_the_job(job.hosts(&[1, 4]));
    }
}

/// The process to kill: a spawned process, or the guardian that has started it.
#[derive(Clone, Copy)]
enum Victim {
    Spawned,
    Guardian,
}

/// Kills a process at the end; fails unless the job ends with status 137.
///
/// The kill follows when rank 0 has recorded its end in its event file. Other processes then wait
/// for the spawned processes of `root`.
fn assert_ended_by_kill_at_the_end(job: Job, root: u32, victim: Victim) {
    let (mut seen, mut is_killed) = (None, false);
    let outcome = job
        .observe(move |ranks| {
            let place = |pid| fs::read_link(format!("/proc/{pid}/cwd")).ok();
            let find = || {
                Some((
                    guardian_of(root, ranks)?,
                    place(ranks.get(&0)?.pid)?.join("../events/rank-0.events"),
                ))
            };
            seen = seen.take().or_else(find);
            let Some((guardian, events)) = seen.as_ref().filter(|_| !is_killed) else {
                return;
            };
            let is_end = |record: Record| matches!(record.kind, Kind::End { .. });
            let is_at_end =
                EventReader::open(events).is_ok_and(|reader| reader.flatten().any(is_end));
            let spawned = spawned(*guardian).filter(|_| is_at_end);
            is_killed = spawned.is_some_and(|spawned| match victim {
                Victim::Spawned => processes::kill(spawned),
                Victim::Guardian => processes::kill(*guardian),
            });
        })
        .run();
    outcome.assert_status(137);
    let message = "a spawned process has ended with status 137";
    outcome.check(
        outcome.stderr.contains(message),
        "no line reports the spawned process",
    );
    outcome.assert_nothing_left();
}

/// The workers have finalized, so no rollback is possible, and the job ends.
#[test]
fn a_spawned_process_that_dies_at_the_end_ends_the_job() {
    with_each(|job| {
        assert_ended_by_kill_at_the_end(job("20", Some("lingers")), 0, Victim::Spawned)
    });
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_guardian_that_dies_at_the_end_with_what_it_has_spawned_ends_the_job() {
    with_each(|job| {
        let job = job("20", Some("lingers")).launched_by(Launcher::Ckptd);
        assert_ended_by_kill_at_the_end(job, 0, Victim::Guardian);
    });
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_spawned_process_on_one_of_several_hosts_that_dies_at_the_end_ends_the_job() {
    if !Hosts::are_possible() {
        return;
    }
    for (of_rounds, root) in variants([("2", 1), ("3", 0)], 1) {
        let job = rounds(
            of_rounds,
            &paths::test_program("spawning"),
            "20",
            Some("lingers"),
        );
        assert_ended_by_kill_at_the_end(job.hosts(&[1, 4]), root, Victim::Spawned);
    }
}
