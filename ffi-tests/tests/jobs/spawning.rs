//! Programs that spawn processes (MPI 4.1, 11.8): these run without the layer, and are spawned again after a failure.

use ckptd::events::{EventReader, Kind, Record};
use ffi_tests::hosts::Hosts;
use ffi_tests::processes::{self, Process};
use ffi_tests::shared::native;
use ffi_tests::{Job, place};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn job(program: &Path, steps: &str, way: Option<&str>) -> Job {
    let arguments: Vec<&str> = ["3", steps].into_iter().chain(way).collect();
    Job::new(program, &arguments).workers(3).interval("10calls")
}

/// With Open MPI, and with MPICH if that is there: tests the job of so many steps in this way.
fn with_each(test: impl Fn(&dyn Fn(&str, Option<&str>) -> Job)) {
    // Two processes of another job do not share memory: Open MPI connects them by TCP.
    test(&|steps, way| job(&place::test_program("spawning"), steps, way).tcp());
    if let Some(program) = place::mpich_program("spawning") {
        test(&|steps, way| job(&program, steps, way).of_mpich());
    }
}

/// The same, of a program with windows of workers and spawned processes.
fn with_windows_of_each(test: impl Fn(&dyn Fn() -> Job)) {
    let job = |program: &Path| {
        let job = Job::new(program, &["2", "1"]).workers(3).interval("10calls");
        job.limit(Duration::from_secs(120))
    };
    test(&|| job(&place::test_program("reaching")).tcp());
    if let Some(program) = place::mpich_program("reaching") {
        test(&|| job(&program).of_mpich());
    }
}

/// The parent of a process (proc(5)).
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The guardian of rank 0, which starts what the program spawns.
fn guardian(ranks: &BTreeMap<u32, Process>) -> Option<u32> {
    parent(ranks.get(&0)?.pid)
}

/// A process that the program has spawned.
fn spawned(guardian: u32) -> Option<u32> {
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(|&pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent(pid) == Some(guardian) && command.split(|&byte| byte == 0).nth(1) == Some(b"child")
    })
}

/// Connected to the last ones to the end, or to none.
const WAYS: [Option<&str>; 2] = [None, Some("connected")];

#[test]
fn spawned_processes_do_as_without_the_layer() {
    with_each(|job| {
        for way in WAYS {
            let outcome = job("200", way).run();
            outcome.assert_success();
            outcome.assert_same_lines(&native(job("200", way)));
            outcome.assert_nothing_left();
        }
    });
}

/// Its handles are pointers, those of MPICH integers.
#[test]
fn programs_of_the_standard_abi_spawn_processes() {
    let Some(program) = place::standard_program("spawning") else {
        return;
    };
    let make = || job(&program, "200", None).of_mpich();
    let outcome = make().fault("kill rank=1 at=call:615").run();
    outcome.assert_success();
    outcome.check(outcome.recoveries() == 1, "nobody has died");
    outcome.assert_same_lines(&native(make()));
    outcome.assert_nothing_left();
}

/// Those of rank 0 are on the first host, and those of rank 1 on the second.
#[test]
fn workers_of_mpich_on_several_hosts_die() {
    let Some(program) = place::mpich_program("spawning").filter(|_| Hosts::are_possible()) else {
        return;
    };
    for time in ["rank=0 at=call:40", "rank=1 at=call:700", "rank=2 at=call:52"] {
        // As in `mpich.rs`. What UCX says of lost connections is on standard output.
        let ucx = [
            ("UCX_TLS", "tcp,self"),
            ("UCX_TCP_BRIDGE_ENABLE", "y"),
            ("UCX_LOG_LEVEL", "fatal"),
        ];
        let make = || {
            let job = job(&program, "200", None).of_mpich().hosts(&[1, 4]);
            ucx.iter().fold(job, |job, (name, value)| job.env(name, value))
        };
        let outcome = make().fault(&format!("kill {time}")).run();
        outcome.assert_success();
        outcome.check(outcome.recoveries() == 1, "nobody has died");
        outcome.assert_same_lines(&native(make()));
        outcome.assert_nothing_left();
    }
}

/// In the first and the second round, and between two, when a group of those that have gone is left.
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
        for way in WAYS {
            for time in times {
                let outcome = job("200", way).fault(&format!("kill {time}")).run();
                outcome.assert_success();
                outcome.check(outcome.recoveries() == 1, "nobody has died");
                outcome.assert_same_lines(&native(job("200", way)));
                outcome.assert_nothing_left();
            }
        }
    });
}

#[test]
fn a_spawned_process_dies() {
    with_each(|job| {
        for way in WAYS {
            let outcome = job("4000", way)
                .watch(|ranks| guardian(ranks).and_then(spawned).is_some_and(processes::kill))
                .run();
            outcome.assert_success();
            outcome.check(outcome.recoveries() == 1, "nothing was recovered");
            outcome.assert_same_lines(&native(job("4000", way)));
            outcome.assert_nothing_left();
        }
    });
}

#[test]
fn windows_of_workers_and_spawned_processes() {
    with_windows_of_each(|job| {
        let outcome = job().run();
        outcome.assert_success();
        outcome.assert_same_lines(&native(job()));
        outcome.assert_nothing_left();
    });
}

/// In windows of each kind, also when they are all that leads to spawned processes (call 145): no cut is taken as long as there is one.
#[test]
fn workers_die_while_they_have_windows_with_spawned_processes() {
    with_windows_of_each(|job| {
        let alone = native(job());
        for time in [
            "rank=1 at=call:20",
            "rank=0 at=call:60",
            "rank=2 at=call:100",
            "rank=0 at=call:145",
            "rank=1 at=call:230",
        ] {
            let outcome = job().fault(&format!("kill {time}")).run();
            outcome.assert_success();
            outcome.check(outcome.recoveries() == 1, "nobody has died");
            outcome.assert_same_lines(&alone);
            outcome.assert_nothing_left();
        }
    });
}

#[test]
fn a_spawned_process_may_end_the_job() {
    with_each(|job| {
        let outcome = job("200", Some("aborts")).run();
        outcome.check(
            outcome.status.and_then(|status| status.code()) == Some(7),
            "another status than that of MPI_Abort",
        );
        outcome.assert_nothing_left();
    });
}

/// The workers have ended, and nobody goes back from there.
#[test]
fn a_spawned_process_that_dies_at_the_end_ends_the_job() {
    with_each(|job| {
        let mut seen = None;
        let outcome = job("20", Some("lingers"))
            .watch(move |ranks| {
                let place = |pid| fs::read_link(format!("/proc/{pid}/cwd")).ok();
                let look = || {
                    Some((
                        guardian(ranks)?,
                        place(ranks.get(&0)?.pid)?.join("../events/rank-0.events"),
                    ))
                };
                seen = seen.take().or_else(look);
                let Some((guardian, events)) = &seen else { return false };
                let is_end = |record: Record| matches!(record.kind, Kind::End { .. });
                let is_at_end = EventReader::open(events).is_ok_and(|reader| reader.flatten().any(is_end));
                is_at_end && spawned(*guardian).is_some_and(processes::kill)
            })
            .run();
        outcome.check(
            outcome.status.and_then(|status| status.code()) == Some(137),
            "another status than that of the one that was killed",
        );
        let told = "a process that the program has spawned has ended with status 137";
        outcome.check(outcome.stderr.contains(told), "nobody says so");
    });
}
