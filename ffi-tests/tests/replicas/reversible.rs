//! Memory that survivors restore by undoing the program's steps (`understudy_reversible`).

use ffi_tests::command::understudy;
use ffi_tests::native_runs::{native, run_with_fault};
use ffi_tests::{Job, Outcome, paths, variants};
use understudy_formats::events::Kind;

/// Cells of each rank; a position and a velocity take 16 bytes.
const CELLS: u64 = 1 << 18;
/// Complete pages of a rank's region, whose last page is partial.
const PAGES: u64 = CELLS * 16 / 4096;

fn job_of(program: &str, way: &str) -> Job {
    let cells = CELLS.to_string();
    Job::new(paths::example(program), &[&cells, "60", way, "memory"])
        .workers(3)
        .interval("5calls")
        .env("UNDERSTUDY_COPIES", "1")
}

fn job(way: &str) -> Job {
    job_of("reversible", way)
}

/// Results of a rank's reverse functions: restored pages, wrong pages, complete steps.
fn undone(outcome: &Outcome, rank: u32) -> Vec<(u64, u64, u64)> {
    let results = |record: understudy_formats::events::Record| match record.kind {
        Kind::Reversed {
            pages,
            wrong,
            steps,
            ..
        } => Some((pages, wrong, steps)),
        _ => None,
    };
    outcome
        .events(rank)
        .into_iter()
        .filter_map(results)
        .collect()
}

/// Fails unless each rank has undone steps `times` times with the right result.
///
/// The result is right if at least `least_pages` pages are those of the checkpoint again, no page
/// differs, and at most ten steps were undone.
#[track_caller]
fn assert_undone(outcome: &Outcome, ranks: &[u32], times: usize, least_pages: u64) {
    for &rank in ranks {
        let undone = undone(outcome, rank);
        let is_good = |&(pages, wrong, steps): &(u64, u64, u64)| {
            pages >= least_pages && wrong == 0 && steps <= 10
        };
        let text = format!("rank {rank} has undone {undone:?}");
        outcome.check(undone.len() == times && undone.iter().all(is_good), &text);
    }
}

/// Fails unless each rank has undone steps once, with a wrong result.
///
/// A line must contain the reason `why`.
#[track_caller]
fn assert_fetched(outcome: &Outcome, ranks: &[u32], why: &str) {
    for &rank in ranks {
        let undone = undone(outcome, rank);
        let text = format!("rank {rank} has undone {undone:?}");
        outcome.check(undone.len() == 1 && undone[0].1 > 0, &text);
    }
    outcome.check(
        outcome.stderr.contains(why),
        &format!("no line has \"{why}\""),
    );
}

/// A worker is killed within a step: survivors undo this step and earlier ones.
///
/// Positions have moved at that time, and the ends of the chain have not been exchanged.
#[test]
fn survivors_undo_their_steps() {
    for call in variants([213, 226], 1) {
        let outcome = run_with_fault(|| job("undo"), &format!("kill rank=1 at=call:{call}"));
        outcome.assert_taken_over(&[1]);
        assert_undone(&outcome, &[0, 2], 1, PAGES);
    }
}

#[test]
fn a_region_takes_no_room_in_a_workers_own_copy() {
    let memory = |way| {
        let outcome = run_with_fault(|| job(way), "");
        let own_kib = |line: &str| {
            line.strip_prefix("rank 1: ")?
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        };
        (
            outcome
                .stderr
                .lines()
                .find_map(own_kib)
                .expect("rank 1 has printed its memory"),
            outcome,
        )
    };
    let ((kept, _), (elided, outcome)) = (memory("kept"), memory("undo"));
    let region = PAGES * 4;
    assert!(
        elided + region * 9 / 10 < kept,
        "{elided} KiB instead of {kept}, of which the region is {region}"
    );
    let events = outcome.event_directory();
    let advice = understudy(&["advise", events.to_str().unwrap(), "--mtbf", "6h"]);
    assert!(
        advice.contains("reverse of 4.0 MiB at main+")
            && advice.contains("own replica is smaller by up to 4.0 MiB"),
        "{advice}"
    );
}

#[test]
fn rounded_steps_are_not_undone_and_the_buddys_copy_is_fetched() {
    let job = || job_of("reversible-float", "undo");
    let outcome = run_with_fault(job, "kill rank=1 at=call:213; kill rank=2 at=call:300");
    outcome.assert_taken_over(&[1, 2]);
    // A survivor fetches its replica only after the first failure: from then on its own replica is
    // complete.
    assert_fetched(
        &outcome,
        &[0, 2],
        "does not restore the bytes of the checkpoint",
    );
}

/// A worker is killed during a checkpoint, of which not all replicas are complete.
///
/// Survivors cannot undo rounded steps. A survivor may therefore need its replica of the previous
/// checkpoint, which the failed worker has stored and left behind.
#[test]
#[ignore = "a variant: make test-all"]
fn buddies_with_rounded_steps_die_during_a_checkpoint() {
    let places = ["ship.half", "capture.end", "whole.begin", "commit.begin"];
    for place in variants(places, 1) {
        let job = || job_of("reversible-float", "undo");
        run_with_fault(job, &format!("kill rank=1 at={place} epoch=6")).assert_taken_over(&[1]);
    }
}

#[test]
fn a_function_that_fails_is_stopped() {
    let ways = [
        ("crash", "it has caused a fatal signal"),
        ("hang", "it has not returned"),
        ("call", "it has called MPI, or exit"),
        ("decline", "has answered that it cannot undo step"),
    ];
    for (way, why) in variants(ways, 1) {
        let outcome = run_with_fault(|| job(way), "kill rank=1 at=call:213");
        outcome.assert_taken_over(&[1]);
        assert_fetched(&outcome, &[0, 2], why);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn workers_die_in_turn_in_reversible_steps() {
    let outcome = run_with_fault(
        || job("undo"),
        "kill rank=1 at=call:150; kill rank=2 at=call:230; kill rank=0 at=call:320",
    );
    outcome.assert_taken_over(&[1, 2, 0]);
}

/// A worker fails with its buddy, or all workers fail; the job recovers.
///
/// No worker's own replica is complete, but each failed process has left a complete replica of
/// another worker.
#[test]
fn a_worker_and_its_buddy_fail_together() {
    for ranks in variants([&[0, 1, 2][..], &[1, 2]], 1) {
        let kill = |rank: &u32| format!("kill rank={rank} at=call:213");
        let outcome = run_with_fault(
            || job("undo"),
            &ranks.iter().map(kill).collect::<Vec<_>>().join("; "),
        );
        outcome.assert_replaced(ranks);
    }
}

/// A worker is killed around a checkpoint; survivors undo their steps.
///
/// The survivors' own replicas lack the region in the old and in the new checkpoint.
#[test]
fn workers_die_while_a_checkpoint_is_under_way() {
    let places = [
        "whole.begin",
        "commit.end",
        "capture.end",
        "ship.half",
        "commit.begin",
    ];
    for place in variants(places, 1) {
        let outcome = run_with_fault(|| job("undo"), &format!("kill rank=1 at={place} epoch=6"));
        outcome.assert_taken_over(&[1]);
        assert_undone(&outcome, &[0, 2], 1, 0);
    }
}

#[test]
fn a_worker_dies_while_it_undoes_steps() {
    let outcome = run_with_fault(
        || job("undo"),
        "kill rank=1 at=call:213; kill rank=2 at=step-back.begin",
    );
    outcome.assert_taken_over(&[1, 2]);
}

/// Worker 2 is killed while the function of worker 0 does not return.
///
/// The recovery starts over, and no worker waits until the function counts as hanging.
#[test]
fn a_worker_dies_while_others_undo_steps() {
    let outcome = run_with_fault(
        || job("hang"),
        "kill rank=1 at=call:213; kill rank=2 at=step-back.begin delay=500ms",
    );
    outcome.assert_taken_over(&[1, 2]);
    let is_late = outcome.stderr.contains("it has not returned");
    outcome.check(!is_late, "a worker has waited for its function");
}

/// Two workers fail in turn, and replicas are lost with their process.
///
/// A survivor has no replica of the memory that it has just restored, so it sends the memory itself
/// to the replacement of its buddy.
#[test]
#[ignore = "a variant: make test-all"]
fn a_buddy_fails_with_its_replicas() {
    let faults = "pretend no-memfd; kill rank=1 at=call:213; kill rank=2 at=call:320";
    let outcome = run_with_fault(|| job("undo"), faults);
    outcome.assert_taken_over(&[1, 2]);
    assert_undone(&outcome, &[0], 2, 1);
}

#[test]
#[ignore = "a variant: make test-all"]
fn static_data_are_rebuilt_beside_reversible_memory() {
    let job = || job("undo").env("UNDERSTUDY_STATIC", "replay");
    let outcome = run_with_fault(job, "kill rank=1 at=commit.end epoch=7");
    outcome.assert_taken_over(&[1]);
    assert_undone(&outcome, &[0, 2], 1, 0);
}

#[test]
#[ignore = "a variant: make test-all"]
fn copies_are_whole_where_they_are_needed() {
    let ways: [fn(Job) -> Job; 2] = [|job| job.env("UNDERSTUDY_COPIES", "xor:3"), Job::disk];
    for way in ways {
        let outcome = run_with_fault(|| way(job("undo")), "kill rank=1 at=call:213");
        outcome.assert_taken_over(&[1]);
        assert_undone(&outcome, &[0, 2], 0, 0);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn poison_finds_steps_that_are_not_undone() {
    let ways = [
        (
            "reversible-float",
            "undo",
            "does not restore the bytes of the checkpoint",
        ),
        ("reversible", "crash", "it has caused a fatal signal"),
        ("reversible", "undo", ""),
    ];
    for (program, way, why) in variants(ways, 2) {
        let outcome = run_with_fault(|| job_of(program, way).env("UNDERSTUDY_POISON", "1"), "");
        let line = outcome
            .stderr
            .lines()
            .find(|line| line.contains("UNDERSTUDY_POISON:"));
        let is_right = line.map_or(why.is_empty(), |line| !why.is_empty() && line.contains(why));
        outcome.check(
            is_right,
            &format!("the line about UNDERSTUDY_POISON is {line:?}"),
        );
    }
}

#[test]
fn an_unprotected_program_undoes_nothing() {
    let [kept, undo] = ["kept", "undo"].map(|way| native(job(way)));
    undo.assert_success();
    assert!(undo.stdout == kept.stdout && !undo.stdout.is_empty());
}
