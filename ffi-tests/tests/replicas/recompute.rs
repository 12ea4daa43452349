//! Memory that a function of the program recomputes (`understudy_recompute`).

use ffi_tests::command::understudy;
use ffi_tests::native_runs::{native, run_with_fault};
use ffi_tests::{Job, KillScope, Outcome, Trigger, paths, variants};
use understudy_formats::events::Kind;

fn job(way: &str) -> Job {
    Job::new(paths::test_program("recompute"), &[way, "60"])
        .workers(3)
        .interval("5calls")
}

/// Bytes of one of the two tables.
const TABLE: u64 = 4 << 20;

fn run(way: &str, fault: &str) -> Outcome {
    run_with_fault(|| job(way), fault)
}

#[track_caller]
fn assert_stderr_has(outcome: &Outcome, what: &str) {
    outcome.check(
        outcome.stderr.contains(what),
        &format!("standard error does not have \"{what}\""),
    );
}

/// Bytes of the checkpoints of worker 1 after the first two.
fn captured(outcome: &Outcome) -> u64 {
    let bytes_of = |record: understudy_formats::events::Record| match record.kind {
        Kind::Capture { epoch, bytes, .. } if epoch.0 > 2 => bytes,
        _ => 0,
    };
    outcome.events(1).into_iter().map(bytes_of).sum()
}

#[test]
fn copies_are_without_what_is_recomputed() {
    let [kept, marked] = ["kept", "marked"].map(|way| captured(&run(way, "")));
    // The tables are recomputed eight times, in eight different intervals, of which at most one is
    // before the third checkpoint.
    assert!(
        marked + 7 * 2 * (TABLE - 8192) < kept,
        "{marked} bytes were saved instead of {kept}"
    );
}

#[test]
fn advice_reports_the_savings_of_marks() {
    let advise = |outcome: &Outcome| {
        let events = outcome.event_directory();
        understudy(&["advise", events.to_str().unwrap(), "--mtbf", "6h"])
    };
    let marked = advise(&run("marked", ""));
    assert!(
        marked.contains("Because of annotations (understudy.h)"),
        "{marked}"
    );
    let is_row = |line: &&str| {
        line.contains("recompute of 4.0 MiB at main+") && line.contains("(3 regions)")
    };
    assert_eq!(marked.lines().filter(is_row).count(), 2, "{marked}");
    let quiet = advise(&run("small", ""));
    assert!(
        quiet.contains("recompute of 64 B at main+")
            && quiet.contains("saved nothing: no whole page lies inside"),
        "{quiet}"
    );
    let kept = advise(&run("kept", ""));
    assert!(!kept.contains("understudy.h"), "{kept}");
}

/// Fails unless these processes have recomputed both tables, once.
#[track_caller]
fn assert_recomputed(outcome: &Outcome, ranks: &[u32]) {
    for &rank in ranks {
        let made = outcome
            .events(rank)
            .into_iter()
            .filter_map(|record| match record.kind {
                Kind::Recomputed { regions, bytes, .. } => Some((regions, bytes)),
                _ => None,
            });
        outcome.check(
            made.collect::<Vec<_>>() == [(2, 2 * TABLE)],
            &format!("rank {rank} has not recomputed exactly two tables"),
        );
    }
}

#[test]
fn recomputed_memory_is_restored() {
    let outcome = run("marked", "kill rank=1 at=call:40");
    outcome.assert_taken_over(&[1]);
    // Survivors recompute the tables, like the replacement.
    assert_recomputed(&outcome, &[0, 2, 3]);
}

#[test]
fn workers_die_around_a_recomputation() {
    let outcome = run(
        "marked",
        "kill rank=1 at=cut.end epoch=4; kill rank=2 at=commit.end epoch=6; kill rank=0 at=load.end",
    );
    outcome.assert_taken_over(&[0, 1, 2]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn recomputed_memory_is_restored_with_parity() {
    let job = || job("marked").env("UNDERSTUDY_COPIES", "xor:3");
    let outcome = run_with_fault(job, "kill rank=2 at=commit.end epoch=7");
    outcome.assert_taken_over(&[2]);
    assert_recomputed(&outcome, &[0, 1, 3]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_restarted_job_recomputes() {
    let job = || {
        let job = Job::new(paths::test_program("recompute"), &["marked", "600"]).workers(3);
        job.disk().interval("5calls")
    };
    let on_disk = Trigger::OnDisk {
        workers: 3,
        epoch: 4,
    };
    let mut first = job().killed_as_a_whole(on_disk, KillScope::Job).run();
    let second = job().env("UNDERSTUDY_RESTART", "1").run_after(&mut first);
    second.assert_success();
    assert_stderr_has(&second, "[restarted]");
    let (all, rest) = (native(job()), &second.stdout);
    second.check(
        all.stdout.ends_with(rest) && !rest.is_empty(),
        "the output differs",
    );
}

#[test]
fn a_region_is_as_protected_as_it_was() {
    run("protected", "kill rank=1 at=call:30").assert_taken_over(&[1]);
}

/// A rollback undoes annotations that the program has made since the checkpoint.
#[test]
#[ignore = "a variant: make test-all"]
fn annotations_are_rolled_back_with_their_memory() {
    for call in variants([36, 42, 33, 39, 45], 2) {
        run("late", &format!("kill rank=2 at=call:{call}")).assert_taken_over(&[2]);
    }
}

#[test]
fn unmapped_memory_is_not_recomputed() {
    let outcome = run("unmapped", "kill rank=1 at=capture.end epoch=10");
    outcome.assert_taken_over(&[1]);
    assert_stderr_has(&outcome, "[recompute-unmapped]");
}

#[test]
#[ignore = "a variant: make test-all"]
fn static_data_are_rebuilt_beside_it() {
    let job = || job("marked").env("UNDERSTUDY_STATIC", "replay");
    run_with_fault(job, "kill rank=1 at=commit.end epoch=7").assert_taken_over(&[1]);
}

#[test]
fn a_function_that_communicates_ends_the_job() {
    let outcome = job("calls").fault("kill rank=1 at=call:40").run();
    let status = outcome.status.and_then(|status| status.code());
    outcome.check(
        status.is_some_and(|status| status != 0),
        "the job has ended with status 0, or hangs",
    );
    assert_stderr_has(
        &outcome,
        "a function that was given to understudy_recompute has called MPI_Barrier",
    );
}

#[test]
fn poison_finds_memory_that_is_not_what_is_recomputed() {
    let run = |way: &str| {
        let outcome = job(way).env("UNDERSTUDY_POISON", "1").run();
        outcome.assert_success();
        outcome.check(
            outcome.stdout == native(job(way)).stdout,
            "the output differs",
        );
        outcome
    };
    let wrong = run("wrong");
    assert_stderr_has(
        &wrong,
        "differs from what its function computes, first in byte 17284.",
    );
    let right = run("marked");
    let claims = &right.stderr;
    assert!(!claims.contains("UNDERSTUDY_POISON"), "{claims}");
}

#[test]
fn an_unprotected_program_recomputes_nothing() {
    let [kept, marked] = ["kept", "marked"].map(|way| native(job(way)));
    marked.assert_success();
    assert!(marked.stdout == kept.stdout && !marked.stdout.is_empty());
}
