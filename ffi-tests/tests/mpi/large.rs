//! Large collectives, in which a process fails.
//!
//! At the failure, transfers between the other ranks are in flight. These transfers must not write
//! to memory that has been rolled back.

use ffi_tests::native_runs::native;
use ffi_tests::{
    Job, Kill, Random, Trigger, Verdicts, fault_at_commit, is_thorough, paths, variants,
};
use std::time::Duration;
use understudy_formats::events::Kind;

const ROUNDS: u32 = 5;

fn large() -> Job {
    Job::new(paths::test_program("large"), &[&ROUNDS.to_string(), "0"]).interval("20calls")
}

/// Disables CMA, so that transfers take long.
///
/// Data then goes through shared memory in pieces, each of which the receiver must copy.
fn in_pieces(job: Job) -> Job {
    job.env("OMPI_MCA_smsc", "^cma")
}

/// Memory that the program has freed before the first checkpoint is in no replica.
///
/// Freed memory does not prevent the restoration.
#[test]
fn freed_memory_is_no_part_of_copies() {
    let job = || Job::new(paths::test_program("freed"), &["12", "2"]).interval("7calls");
    let outcome = job().fault(&fault_at_commit(1, 3)).run();
    outcome.assert_recovered(&native(job()), &[], &[1]);
    let captured: Vec<u64> = outcome
        .events(0)
        .iter()
        .filter_map(|record| second_capture(&record.kind))
        .collect();
    outcome.check(
        matches!(captured[..], [bytes] if bytes < 24 << 20),
        &format!("bytes captured after 48 MiB were freed: {captured:?}"),
    );
}

/// Bytes that were captured for checkpoint 2.
fn second_capture(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::Capture { epoch, bytes, .. } if epoch.0 == 2 => Some(*bytes),
        _ => None,
    }
}

/// Kills each worker in turn in large collectives; fails unless the output is undisturbed.
fn assert_workers_recover(how: &str, job: impl Fn() -> Job, times: usize) {
    let mut random = Random::announced(how);
    let undisturbed = native(large());
    undisturbed.assert_checks();
    let first_lines = undisturbed.first_round_lines();
    let mut verdicts = Verdicts::default();
    if is_thorough() {
        verdicts.judge("no kill", || {
            let outcome = job().run();
            outcome.assert_success();
            outcome.assert_like(&undisturbed, &[]);
        });
    }
    for worker in variants([1, 0, 2, 3], 1) {
        for _ in 0..times {
            let round = first_lines + random.below(u64::from(ROUNDS) - 3) as usize;
            let delay = Duration::from_micros(random.below(100_000));
            let outcome = job()
                .kill(Kill::at(worker, Trigger::Lines(round)).after(delay))
                .run();
            verdicts.judge(
                &format!("{how}: worker {worker} killed {delay:?} after line {round}"),
                || {
                    outcome.assert_recovered(&undisturbed, &[], &[worker]);
                },
            );
        }
    }
    verdicts.assert_all_good();
}

#[test]
fn a_worker_may_die_in_a_large_collective() {
    assert_workers_recover("large", large, 1);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_fail_in_a_large_collective_with_data_in_pieces() {
    assert_workers_recover("large, in pieces", || in_pieces(large()), 2);
}
