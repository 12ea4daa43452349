//! Deduplication: pages that the buddy has itself (UNDERSTUDY_SHARED_PAGES).
//!
//! Such pages are neither sent nor stored twice, whichever worker fails.

use ffi_tests::command::understudy;
use ffi_tests::living_processes::living_and_lines;
use ffi_tests::namespace_hosts::Hosts;
use ffi_tests::native_runs::native;
use ffi_tests::programs;
use ffi_tests::{
    Job, Launcher, Outcome, Trigger, Verdicts, is_thorough, paths, processes, variants,
};
use std::cell::Cell;
use std::rc::Rc;
use understudy_formats::events::Kind;

/// KiB of the table, which is equal in all workers.
const TABLE: u64 = 16 << 10;
/// KiB of a worker's own data.
const OWN: u64 = 2 << 10;
/// KiB of a worker's part of the vector.
const PART: u64 = 64;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Makes a job in which worker r + 1 stores the replica of worker r.
fn replicated(arguments: &[&str], shared: &str) -> Job {
    let sizes = [TABLE.to_string(), OWN.to_string()];
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    Job::new(
        paths::test_program("replicated"),
        &[&sizes[..], arguments].concat(),
    )
    .interval("5calls")
    .env("UNDERSTUDY_COPIES", "1")
    .env("UNDERSTUDY_BUDDY_OFFSET", "1")
    .env("UNDERSTUDY_SHARED_PAGES", shared)
}

fn job(shared: &str) -> Job {
    replicated(&["20"], shared)
}

/// Fails unless the job succeeded with the output of an undisturbed run, and left nothing.
#[track_caller]
fn assert_same(outcome: &Outcome) {
    outcome.assert_success();
    outcome.assert_like(&native(job("auto")), &[]);
    outcome.assert_nothing_left();
}

/// Bytes that a worker has sent, and pages that its buddy has itself, per checkpoint.
fn shipped(outcome: &Outcome, rank: u32) -> Vec<(u64, u64)> {
    let amounts = |record: understudy_formats::events::Record| match record.kind {
        Kind::Ship { bytes, alike, .. } => Some((bytes, alike)),
        _ => None,
    };
    outcome
        .events(rank)
        .into_iter()
        .filter_map(amounts)
        .collect()
}

#[test]
fn what_all_have_is_not_sent() {
    for shared in variants(["auto", "1"], 1) {
        let outcome = job(shared).run();
        assert_same(&outcome);
        for rank in 0..4 {
            let epochs = shipped(&outcome, rank);
            outcome.check(epochs.len() >= 4, "there were too few checkpoints");
            // The first checkpoint precedes the table.
            outcome.check(epochs[1].1 >= TABLE * 1024 / PAGE, "the table was sent");
            for &(bytes, _) in &epochs[1..] {
                let single = (OWN + PART) * 1024;
                outcome.check(
                    bytes >= single && bytes <= single / 100 * 105,
                    &format!("{bytes} bytes were sent instead of {single}"),
                );
            }
        }
        let said = understudy(&["inspect", outcome.event_directory().to_str().unwrap()]);
        outcome.check(
            said.contains("pages that rank 0 has itself"),
            "no rank reports elided pages",
        );
    }
    let outcome = job("0").run();
    assert_same(&outcome);
    let epochs = shipped(&outcome, 1);
    outcome.check(
        epochs.iter().all(|&(_, alike)| alike == 0),
        "pages were elided",
    );
    outcome.check(epochs[1].0 > (TABLE + OWN) * 1024, "the table was not sent");
}

#[test]
fn nothing_is_left_out_where_all_is_different() {
    let job = programs::heat2d().job().env("UNDERSTUDY_COPIES", "1");
    let outcome = programs::heat2d().assert_undisturbed(job);
    // Workers have few equal pages: mostly those that libraries and the program wrote at their
    // start, which the first checkpoints contain.
    for rank in 0..4 {
        let alike: Vec<u64> = shipped(&outcome, rank)
            .into_iter()
            .map(|(_, alike)| alike)
            .collect();
        outcome.check(
            alike.len() > 20 && alike[3..].iter().all(|&pages| pages == 0),
            &format!("{alike:?}"),
        );
    }
}

/// Proportional memory of all workers in KiB, when the program has printed three lines.
fn memory(shared: &str, fault: &str) -> (u64, Outcome) {
    let seen = Rc::new(Cell::new(0));
    let result = Rc::clone(&seen);
    let job = replicated(&["20", "40"], shared)
        .spares(0)
        .launched_by(Launcher::Ckptd);
    let job = job.fault(fault).watch(move |first| {
        let (living, printed) = living_and_lines(first, "replicated");
        if printed < 3 || living.len() < 4 {
            return false;
        }
        result.set(
            living
                .values()
                .filter_map(|&pid| processes::proportional_memory(pid))
                .sum(),
        );
        true
    });
    let outcome = job.run();
    outcome.assert_success();
    (seen.get(), outcome)
}

#[test]
fn what_all_have_is_kept_once_by_each_also_after_a_recovery() {
    // With the first fault, a new process replaces worker 1, and replicas are made again.
    let faults = ["kill rank=1 at=commit.begin epoch=3; pretend no-memfd", ""];
    for fault in variants(faults, 1) {
        let [apart, together] = ["0", "auto"].map(|shared| memory(shared, fault));
        println!("{} KiB, shared {} KiB", apart.0, together.0);
        together.1.check(
            together.0 > 0 && together.0 + 4 * TABLE / 100 * 95 < apart.0,
            &format!("{} KiB instead of {}", together.0, apart.0),
        );
        together
            .1
            .check(apart.1.stdout == together.1.stdout, "the output differs");
    }
}

/// Faults of a worker, its buddy or both, and the workers that are replaced.
const DEATHS: &[(&str, &[u32])] = &[
    (
        "kill rank=1 at=cut.end epoch=4; kill rank=2 at=commit.end epoch=5",
        &[1, 2],
    ),
    (
        "kill rank=2 at=ship.begin epoch=2; kill rank=1 at=commit.begin epoch=3",
        &[2, 1],
    ),
    (
        "kill rank=2 at=ask.end epoch=2; kill rank=1 at=ask.begin epoch=3",
        &[2, 1],
    ),
    ("kill rank=3 at=ship.end epoch=3", &[3]),
    (
        "kill rank=2 at=ship.half epoch=3; kill rank=3 at=commit.begin epoch=4",
        &[2, 3],
    ),
    (
        "kill rank=0 at=capture.end epoch=3; kill rank=1 at=commit.end epoch=4",
        &[0, 1],
    ),
    (
        // Rank 4 is the spare that has replaced worker 1.
        "kill rank=1 at=commit.begin epoch=2; kill rank=4 at=whole.begin epoch=3",
        &[1, 1],
    ),
];

#[test]
fn workers_and_buddies_may_die() {
    let mut verdicts = Verdicts::default();
    // Each failure is tested with the persistent replica store of the failed worker, and with
    // replicas that other workers store.
    for &(deaths, workers) in variants(DEATHS, 1) {
        for (shared, lifetime) in [("1", ""), ("auto", "; pretend no-memfd")] {
            let fault = format!("{deaths}{lifetime}");
            let outcome = job(shared).spares(2).fault(&fault).run();
            verdicts.judge(&fault, || {
                assert_same(&outcome);
                outcome.assert_taken_over(workers);
            });
        }
    }
    verdicts.assert_all_good();
}

#[test]
#[ignore = "a variant: make test-all"]
fn with_two_copies_both_refer_to_what_is_there() {
    let fault = "kill rank=1 at=cut.end epoch=4 delay=40ms; kill rank=2 at=cut.end epoch=4 \
        delay=40ms; pretend no-memfd";
    let outcome = job("1")
        .env("UNDERSTUDY_COPIES", "2")
        .spares(2)
        .fault(fault)
        .run();
    assert_same(&outcome);
    outcome.assert_replaced(&[1, 2]);
}

/// Damages pages of worker 2, to which its replica of worker 1 refers.
const DAMAGE: &str = "corrupt rank=2 at=commit.end epoch=3 copy=own; pretend no-memfd";

#[test]
fn a_copy_that_refers_to_damaged_pages_is_refused() {
    let refused = "the replica of worker 1 at rank 2 is not used: the replica of page";
    let fault = format!("{DAMAGE}; kill rank=1 at=cut.end epoch=4");
    let outcome = job("1").fault(&fault).run();
    outcome.check(
        outcome.status.and_then(|status| status.code()) == Some(75)
            && outcome.stderr.contains(refused),
        "no line reports the refused replica, or the status is not that of a loss",
    );
    outcome.assert_nothing_left();
    if !is_thorough() {
        return;
    }
    // Worker 3 has another replica.
    let outcome = job("1")
        .env("UNDERSTUDY_COPIES", "2")
        .spares(2)
        .fault(&fault)
        .run();
    assert_same(&outcome);
    outcome.check(
        outcome.stderr.contains(refused),
        "the damaged replica was used",
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_replica_that_refers_to_damaged_pages_is_rebuilt_with_them() {
    // Worker 2 is rolled back, finds its pages damaged and fetches them from worker 3; then its
    // replica of worker 1 is needed.
    let fault =
        format!("{DAMAGE}; kill rank=0 at=cut.end epoch=4; kill rank=1 at=commit.end epoch=4");
    let outcome = job("1").spares(2).fault(&fault).run();
    assert_same(&outcome);
    outcome.assert_taken_over(&[0, 1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_node_may_be_lost() {
    if !Hosts::are_possible() {
        return;
    }
    let job = || {
        replicated(&["30", "20"], "1")
            .workers(6)
            .spares(2)
            .hosts(&[2, 2, 4])
    };
    let job = || {
        job()
            .env("UNDERSTUDY_BUDDY_OFFSET", "2")
            .launched_by(Launcher::Ckptd)
    };
    let outcome = job().lose_host(Trigger::Lines(3), 1).run();
    outcome.assert_success();
    outcome.assert_like(&native(job()), &[]);
    outcome.assert_replaced(&[2, 3]);
    outcome.assert_nothing_left();
    let left_out: u64 = shipped(&outcome, 0)
        .into_iter()
        .map(|(_, alike)| alike)
        .sum();
    outcome.check(left_out > TABLE * 1024 / PAGE, "the table was sent");
}
