//! Annotations of a program (`understudy.h`), and their effects.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, paths};
use understudy_formats::events::Kind;

fn job(way: &str) -> Job {
    // 5000 rounds are long enough for checkpoints at intervals of time on a fast machine.
    let rounds = if way == "held" { "5000" } else { "1000" };
    Job::new(paths::test_program("marks"), &[way, rounds])
}

#[track_caller]
fn assert_undisturbed(outcome: &Outcome, way: &str) {
    outcome.assert_success();
    outcome.check(
        outcome.stdout == native(job(way)).stdout,
        "the output differs",
    );
    outcome.assert_nothing_left();
}

/// Number that a rank of the program has printed after a word.
fn answered(outcome: &Outcome, rank: u32, word: &str) -> Option<i64> {
    let line = outcome
        .stderr
        .lines()
        .find(|line| line.starts_with(&format!("rank {rank}: ")))?;
    let (_, rest) = line.split_once(&format!(" {word} "))?;
    rest.split(',').next()?.parse().ok()
}

#[test]
fn a_loop_without_collectives_has_checkpoints_at_marks() {
    let outcome = job("points")
        .interval("50calls")
        .fault("kill rank=2 at=call:550")
        .run();
    assert_undisturbed(&outcome, "points");
    outcome.assert_taken_over(&[2]);
    // The rollback went back by 50 rounds at most, and not to the start.
    outcome.check(outcome.last_epoch(1) >= 15, "there were fewer checkpoints");
    let answer = |word| answered(&outcome, 2, word);
    outcome.check(
        answer("substitute") == Some(1),
        "the replacement of worker 2 is not reported as one",
    );
    outcome.check(
        answer("recoveries") == Some(1) && answer("protected") == Some(1),
        "worker 2 has another number of recoveries, or is not protected",
    );
    outcome.check(
        answered(&outcome, 1, "substitute") == Some(0),
        "worker 1, a survivor, is reported as a replacement",
    );
}

/// Requested checkpoints are taken beside those of the interval.
///
/// While the workers agree on a cut at any call, a few of them already reach the call that requests
/// a checkpoint. All workers must take a cut at that call.
#[test]
fn checkpoints_are_taken_at_any_call_and_where_they_are_wanted() {
    let job = || Job::new(paths::test_program("marks"), &["slow", "2000"]);
    let outcome = job().interval("5ms").run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(job()));
    outcome.check(
        outcome.last_epoch(0) > 30,
        "there were only requested checkpoints",
    );
}

#[test]
fn a_checkpoint_is_taken_where_it_is_wanted() {
    let outcome = job("wanted")
        .interval("off")
        .fault("kill rank=1 at=call:550")
        .run();
    assert_undisturbed(&outcome, "wanted");
    outcome.assert_taken_over(&[1]);
    // The first checkpoint is taken at the end of MPI_Init.
    outcome.check(
        outcome.last_epoch(0) == 11,
        &format!("{} checkpoints", outcome.last_epoch(0)),
    );
    outcome.check(
        answered(&outcome, 0, "cost") == Some(1),
        "the cost of a checkpoint is not reported",
    );
}

#[test]
fn no_checkpoint_is_taken_while_a_worker_inhibits_it() {
    for interval in ["20calls", "1ms"] {
        let outcome = job("held").interval(interval).run();
        assert_undisturbed(&outcome, "held");
        let held = answered(&outcome, 3, "held");
        // A checkpoint that was in progress when the worker inhibits checkpoints is still
        // committed.
        outcome.check(
            held.is_some_and(|held| held <= 1),
            &format!("{held:?} checkpoints meanwhile"),
        );
        outcome.check(
            outcome.last_epoch(0) > 3,
            "there was no checkpoint before or after",
        );
    }
}

#[test]
fn points_of_an_unprotected_program_have_no_effect() {
    let outcome = native(job("points"));
    outcome.assert_success();
    let answer = |word| answered(&outcome, 0, word);
    outcome.check(
        answer("protected") == Some(0) && answer("checkpoint") == Some(0),
        "an unprotected program is reported as protected, or has a checkpoint",
    );
}

/// Bytes of the checkpoints of a worker after the first two.
fn captured(outcome: &Outcome, rank: u32) -> u64 {
    let bytes_of = |record: understudy_formats::events::Record| match record.kind {
        Kind::Capture { epoch, bytes, .. } if epoch.0 > 2 => bytes,
        _ => 0,
    };
    outcome.events(rank).into_iter().map(bytes_of).sum()
}

fn fields(way: &str) -> Job {
    Job::new(paths::test_program("marks"), &[way, "60"])
        .workers(3)
        .interval("5calls")
}

#[test]
fn what_is_discarded_is_not_saved() {
    let undisturbed = native(fields("kept"));
    let run = |way, fault| {
        let outcome = fields(way).fault(fault).run();
        outcome.assert_success();
        outcome.check(outcome.stdout == undisturbed.stdout, "the output differs");
        outcome
    };
    let [kept, discarded] = ["kept", "discarded"].map(|way| captured(&run(way, ""), 1));
    assert!(
        discarded * 100 < kept * 55,
        "{discarded} bytes were saved instead of {kept}"
    );
    let outcome = run(
        "discarded",
        "kill rank=1 at=cut.end epoch=6; kill rank=2 at=commit.end epoch=8",
    );
    outcome.assert_taken_over(&[1, 2]);
}

#[test]
fn poison_finds_a_wrong_claim() {
    let undisturbed = native(fields("misuse"));
    let run = |poison| fields("misuse").env("UNDERSTUDY_POISON", poison).run();
    let is_same = |outcome: Outcome| {
        outcome.assert_success();
        outcome.stdout == undisturbed.stdout
    };
    assert!(
        is_same(run("0")),
        "without a failure, a wrong claim changes the output"
    );
    assert!(!is_same(run("1")), "poison does not change the output");
}
