//! Common parts of the tests of reduced replicas.

use crate::native_runs::native;
use crate::programs::TestProgram;
use crate::{Job, Kill, Outcome, Trigger, Verdicts, variants};
use understudy_formats::events::Kind;

/// Number of workers of a job with reduced replicas.
pub const WORKERS: u32 = 4;
/// All replicas have been reduced, and then a checkpoint was committed.
pub const ALL_REDUCED: Trigger = Trigger::Reduced {
    workers: WORKERS,
    times: 1,
};
/// Checkpoints after which all workers sleep.
const PAUSES: [u64; 6] = [10, 13, 16, 19, 22, 25];
/// Exit status of a job that cannot be recovered.
pub const LOST: i32 = 75;

/// Faults by which all workers sleep after each of these checkpoints.
pub fn pauses(checkpoints: impl IntoIterator<Item = u64>) -> String {
    let after = |epoch| {
        (0..WORKERS)
            .map(move |rank| format!("wait rank={rank} at=commit.end epoch={epoch} delay=200ms"))
    };
    let faults: Vec<String> = checkpoints.into_iter().flat_map(after).collect();
    faults.join("; ")
}

/// Makes a job whose replicas are reduced long before its end.
///
/// Short intervals make many checkpoints. All workers sleep after some checkpoints, so that trial
/// replays finish on a busy machine, too. Worker r + 1 is the buddy of worker r.
pub fn job(case: &TestProgram) -> Job {
    let interval = if case.name == "LAMMPS" {
        "6calls"
    } else {
        "30calls"
    };
    case.job()
        .interval(interval)
        .env("UNDERSTUDY_STATIC", "replay")
        .env("UNDERSTUDY_BUDDY_OFFSET", "1")
        .fault(&pauses(PAUSES))
}

/// Number of pages that this rank of the launcher's world has rebuilt.
pub fn rebuilt(outcome: &Outcome, rank: u32) -> u64 {
    let events = outcome.events(rank).into_iter();
    let pages = events.filter_map(|record| match record.kind {
        Kind::Rebuilt { pages, .. } => Some(pages),
        _ => None,
    });
    pages.sum()
}

/// Pages elided from a worker's replica at its first reduction, and pages left.
pub fn elided_pages(outcome: &Outcome, worker: u32) -> (u64, u64) {
    let all = (0..WORKERS).flat_map(|rank| outcome.events(rank));
    let mut of_worker = all.filter_map(|record| match record.kind {
        Kind::ReplicaReduced {
            worker: of,
            pages,
            left,
            ..
        } if of.0 == worker => Some((pages, left)),
        _ => None,
    });
    of_worker.next().unwrap_or_default()
}

/// Fails unless the job wrote the bytes of an undisturbed run and left nothing behind.
pub fn assert_like_undisturbed(outcome: &Outcome, case: &TestProgram) {
    outcome.assert_success();
    outcome.assert_like_after(&native(case.job()), case.files, case.canonical);
    outcome.assert_nothing_left();
}

/// Fails unless the job ended with status [`LOST`], and a line has all of `words`.
pub fn assert_lost(outcome: &Outcome, words: &[&str]) {
    outcome.check(outcome.status.is_some(), "the job hangs");
    outcome.check(
        outcome.status.and_then(|status| status.code()) == Some(LOST),
        "the status is not that of a job that cannot be recovered",
    );
    let has_all = |line: &&str| words.iter().all(|word| line.contains(word));
    outcome.check(
        outcome.own_lines().iter().any(has_all),
        &format!("no line of understudy has {words:?}"),
    );
    outcome.assert_nothing_left();
}

/// Kills a worker when all replicas have been reduced; with `FFI_TESTS_ALL`, each in turn.
///
/// The spare that takes over must rebuild at least `least_pages` pages of static data.
pub fn assert_workers_recover(case: &TestProgram, least_pages: u64) {
    let mut verdicts = Verdicts::default();
    for worker in variants((0..WORKERS).rev(), 1) {
        let outcome = job(case).kill(Kill::at(worker, ALL_REDUCED)).run();
        let (elided, left) = elided_pages(&outcome, worker);
        let pages = rebuilt(&outcome, WORKERS);
        println!(
            "{}: worker {worker}: {pages} pages rebuilt; {elided} elided, {left} left",
            case.name
        );
        verdicts.judge(&format!("worker {worker}"), || {
            assert_like_undisturbed(&outcome, case);
            outcome.assert_taken_over(&[worker]);
            outcome.check(
                pages >= least_pages,
                &format!("only {pages} pages were rebuilt"),
            );
        });
    }
    verdicts.assert_all_good();
}
