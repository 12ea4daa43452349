//! Workers elide static data from their own replicas.
//!
//! A worker that is rolled back rebuilds static data that it has changed for the first time since
//! the checkpoint.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, Trigger, paths, processes};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use understudy_formats::events::Kind;

const WORKERS: u32 = 4;
const OWN_REDUCED: Trigger = Trigger::OwnReduced { workers: WORKERS };
/// Exit status of a job that cannot be recovered.
const LOST: i32 = 75;
/// Least number of pages that each changing rank changes; see `programs/adapting.c`.
const CHANGED: u64 = 16;
/// Number of doubles of the table in the static data.
const TABLE_CELLS: u64 = 1 << 21;
/// Number of doubles of the static data that `unmap` maps again.
const REMAPPED_CELLS: u64 = 1 << 17;
/// Pages that `unmap` maps again.
const REMAPPED_PAGES: u64 = REMAPPED_CELLS * 8 / 4096;

fn adapting(arguments: &[&str]) -> Job {
    Job::new(paths::test_program("adapting"), arguments)
}

/// Makes a job whose workers elide static data from their own replicas.
fn protected(arguments: &[&str]) -> Job {
    adapting(arguments)
        .interval("30calls")
        .env("UNDERSTUDY_STATIC", "replay")
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
}

/// Points at which the program waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// The workers' own replicas are reduced; the program has not changed its data.
    Reduced,
    /// The program has changed its data; no checkpoint has been taken since.
    Changed,
    /// Checkpoints have been taken since the program changed its data.
    Half,
}

type Ranks = BTreeMap<u32, processes::Process>;

/// Calls `then` at each stop, until `then` returns true and the program continues.
fn disturb(job: Job, then: impl FnMut(Stop, &Ranks, &Path) -> bool + 'static) -> Outcome {
    disturb_from(OWN_REDUCED, job, then)
}

/// Performs [`disturb`] with another trigger of the first stop.
fn disturb_from(
    first: Trigger,
    job: Job,
    mut then: impl FnMut(Stop, &Ranks, &Path) -> bool + 'static,
) -> Outcome {
    let mut stops = vec![
        (Stop::Half, Trigger::Lines(2), "end"),
        (Stop::Changed, Trigger::Lines(1), "go-on"),
        (Stop::Reduced, first, "change"),
    ];
    let watched = job.watch(move |ranks| {
        let Some((stop, trigger, file)) = stops.last() else {
            return true;
        };
        let alive = ranks
            .values()
            .find(|process| processes::parent(process.pid).is_some());
        let Some(root) = alive.and_then(|process| Some(work_of(process.pid)?.parent()?.to_owned()))
        else {
            return false;
        };
        if trigger.is_reached(&root.join("stdout"), &root.join("events"))
            && then(*stop, ranks, &root)
        {
            std::fs::write(root.join("work").join(file), "").expect("the directory is writable");
            stops.pop();
        }
        false
    });
    watched.run()
}

fn work_of(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Kills ranks when the program has changed its data.
fn disturb_by_deaths(job: Job, victims: &'static [u32]) -> Outcome {
    disturb(job, move |stop, ranks, _| {
        if stop == Stop::Changed {
            victims.iter().for_each(|&rank| kill(ranks, rank));
        }
        true
    })
}

fn kill(ranks: &Ranks, rank: u32) {
    assert!(
        processes::kill(ranks[&rank].pid),
        "rank {rank} has exited before the kill"
    );
}

/// Kills the template process of a rank.
fn kill_template(ranks: &Ranks, rank: u32) {
    let templates = processes::attached_to(ranks[&rank].pid, "understudy-seed");
    assert_eq!(templates.len(), 1, "{templates:?}");
    assert!(processes::kill(templates[0]));
}

fn sum(outcome: &Outcome, rank: u32, of: impl Fn(&Kind) -> Option<u64>) -> u64 {
    outcome
        .events(rank)
        .iter()
        .filter_map(|record| of(&record.kind))
        .sum()
}

fn rebuilt(outcome: &Outcome, rank: u32) -> u64 {
    sum(outcome, rank, |kind| match kind {
        Kind::Rebuilt { pages, .. } => Some(*pages),
        _ => None,
    })
}

/// Fails unless a rank has rebuilt at least [`CHANGED`] pages, or fewer unless `has_changed`.
///
/// A few pages are rebuilt in any case, because the program's libc has changed them.
fn check_rebuilt(outcome: &Outcome, rank: u32, has_changed: bool) {
    let pages = rebuilt(outcome, rank);
    outcome.check(
        (pages >= CHANGED) == has_changed,
        &format!("rank {rank} has rebuilt {pages} pages"),
    );
}

fn assert_like_undisturbed(outcome: &Outcome, arguments: &[&str]) {
    outcome.assert_success();
    outcome.assert_like(
        &native(
            adapting(arguments)
                .input("change", "")
                .input("go-on", "")
                .input("end", ""),
        ),
        &["protocol.0", "protocol.1", "protocol.2", "protocol.3"],
    );
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_survivor_gets_back_what_it_has_just_changed() {
    for (list, changers) in [
        ("1", vec![1]),
        ("0,1", vec![0, 1]),
        ("0,1,2,3", vec![0, 1, 3]),
    ] {
        let outcome = disturb_by_deaths(protected(&[list]), &[2]);
        assert_like_undisturbed(&outcome, &[list]);
        outcome.assert_taken_over(&[2]);
        for rank in [0, 1, 3] {
            check_rebuilt(&outcome, rank, changers.contains(&rank));
        }
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn unmapped_memory_is_restored() {
    let outcome = disturb_by_deaths(protected(&["0,3", "unmap"]), &[1]);
    assert_like_undisturbed(&outcome, &["0,3", "unmap"]);
    for rank in [0, 3] {
        let pages = rebuilt(&outcome, rank);
        outcome.check(
            pages >= REMAPPED_PAGES,
            &format!("rank {rank} has rebuilt {pages} pages"),
        );
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn changed_pages_are_found_by_comparing_too() {
    let job = protected(&["0,1"]).env("UNDERSTUDY_TRACKING", "compare");
    let outcome = disturb_by_deaths(job, &[2]);
    assert_like_undisturbed(&outcome, &["0,1"]);
    check_rebuilt(&outcome, 0, true);
}

#[test]
#[ignore = "a variant: make test-all"]
fn changed_pages_are_read_back_from_disk() {
    let job = protected(&["0,1"]).env("UNDERSTUDY_STATIC", "disk").disk();
    let job = job.env("UNDERSTUDY_DISK_EVERY", "1000000");
    let outcome = disturb_by_deaths(job, &[2]);
    assert_like_undisturbed(&outcome, &["0,1"]);
    check_rebuilt(&outcome, 0, true);
}

#[test]
#[ignore = "a variant: make test-all"]
fn with_two_copies_two_may_die() {
    let job = protected(&["0,2"]).spares(2).env("UNDERSTUDY_COPIES", "2");
    let outcome = disturb_by_deaths(job, &[1, 2]);
    assert_like_undisturbed(&outcome, &["0,2"]);
    check_rebuilt(&outcome, 0, true);
}

/// A worker is killed when checkpoints have followed the changes; survivors rebuild nothing.
///
/// From the next checkpoint on, changed pages are part of both replicas of a worker:
/// its own one and the one at its buddy.
#[test]
#[ignore = "a variant: make test-all"]
fn changed_pages_are_dynamic_afterwards() {
    let outcome = disturb(protected(&["0,1"]).spares(2), |stop, ranks, _| {
        if stop == Stop::Half {
            kill(ranks, 1);
        }
        true
    });
    assert_like_undisturbed(&outcome, &["0,1"]);
    outcome.assert_taken_over(&[1]);
    check_rebuilt(&outcome, 0, false);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_second_failure_finds_the_copies_in_order() {
    let outcome = disturb(protected(&["0,1,2"]).spares(2), |stop, ranks, _| {
        match stop {
            Stop::Reduced => {}
            // Worker 0 stores the replica of 3, and worker 3 that of 2.
            Stop::Changed => kill(ranks, 3),
            Stop::Half => kill(ranks, 0),
        }
        true
    });
    assert_like_undisturbed(&outcome, &["0,1,2"]);
    outcome.assert_taken_over(&[3, 0]);
}

#[test]
fn a_survivor_may_die_while_it_gets_its_pages_back() {
    let job = protected(&["0,1"])
        .spares(2)
        .fault("kill rank=1 at=load.half");
    // Worker 2 stores the replica of 1, and worker 0 that of 3.
    let outcome = disturb_by_deaths(job, &[3]);
    assert_like_undisturbed(&outcome, &["0,1"]);
    outcome.assert_taken_over(&[1, 3]);
}

/// A worker whose own replica is damaged loads the replica that its buddy stores.
///
/// The buddy's replica lacks the static pages that the worker has changed.
#[test]
#[ignore = "a variant: make test-all"]
fn a_damaged_copy_and_changed_pages() {
    let job = protected(&["0,1"]).fault("corrupt rank=1 copy=own at=detect.begin");
    let outcome = disturb_by_deaths(job, &[3]);
    assert_like_undisturbed(&outcome, &["0,1"]);
}

/// A worker whose template process is killed keeps a whole replica of its own again.
#[test]
#[ignore = "a variant: make test-all"]
fn the_process_that_replays_may_end() {
    let mut is_killed = false;
    let outcome = disturb(protected(&["0,1"]), move |stop, ranks, root| {
        match stop {
            Stop::Reduced => {
                if !std::mem::replace(&mut is_killed, true) {
                    kill_template(ranks, 1);
                }
                let said = std::fs::read_to_string(root.join("stderr")).unwrap_or_default();
                return said.contains("[replay-process-ended]");
            }
            Stop::Changed => kill(ranks, 2),
            Stop::Half => {}
        }
        true
    });
    assert_like_undisturbed(&outcome, &["0,1"]);
    check_rebuilt(&outcome, 0, true);
    check_rebuilt(&outcome, 1, false);
}

/// A template process is killed after its worker has changed static data.
///
/// The changed pages cannot be rebuilt when another worker fails: the job ends with a message, and
/// never with wrong data.
#[test]
fn death_of_the_replaying_process_loses_the_job_with_a_message() {
    let lost = disturb(protected(&["0,1"]), |stop, ranks, _| {
        if stop == Stop::Changed {
            kill_template(ranks, 1);
            kill(ranks, 2);
        }
        true
    });
    let lines = lost.own_lines();
    let is_reported = lines
        .iter()
        .any(|line| line.contains("static data cannot be rebuilt"));
    lost.check(is_reported, "no line gives the cause");
    lost.check(
        lost.status.and_then(|status| status.code()) == Some(LOST),
        "another status than that of a loss",
    );
}

/// Memory of a worker and its template process, in KiB.
fn memory_of(ranks: &Ranks, rank: u32) -> u64 {
    let pid = ranks[&rank].pid;
    let templates = processes::attached_to(pid, "understudy-seed");
    let all = templates.into_iter().chain([pid]);
    all.filter_map(processes::proportional_memory).sum()
}

/// Memory of worker 1 after its data have been set up and changed.
fn memory(mode: &'static str) -> u64 {
    let found = Rc::new(Cell::new(0));
    let result = found.clone();
    let job = protected(&["0,1"])
        .env("UNDERSTUDY_STATIC", mode)
        .env("UNDERSTUDY_COPIES", "1");
    let first = if mode == "replay" {
        OWN_REDUCED
    } else {
        Trigger::Commit { rank: 0, epoch: 4 }
    };
    let outcome = disturb_from(first, job, move |stop, ranks, _| {
        if stop == Stop::Half {
            result.set(memory_of(ranks, 1));
        }
        true
    });
    assert_like_undisturbed(&outcome, &["0,1"]);
    found.get()
}

/// Memory for replicas of 17 MiB of static data is saved twice in each worker.
///
/// With whole replicas a worker has its own replica, and the replica that it stores for another
/// worker, beside the data of the program.
#[test]
#[ignore = "a variant: make test-all"]
fn static_data_have_no_second_copy() {
    let (image, replay) = (memory("image"), memory("replay"));
    println!("{image} KiB with images, {replay} KiB with replay");
    let static_data = (TABLE_CELLS + REMAPPED_CELLS) * 8 / 1024;
    assert!(
        image > replay + 2 * static_data * 9 / 10,
        "{image} KiB with images, {replay} KiB with replay"
    );
}
