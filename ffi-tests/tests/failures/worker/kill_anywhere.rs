//! A worker is killed at a random moment: the output equals an undisturbed run's.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Kill, Random, Trigger, Verdicts, variants};
use std::time::Duration;

const WORKERS: u32 = 4;

/// Kills workers, each once in each of `times` equal parts of a run.
///
/// Each kill has a run of its own. The ordinary run kills one of the four workers, `make test-all`
/// all of them.
fn kill_workers(case: &TestProgram, times: usize) {
    let mut random = Random::announced(case.name);
    let undisturbed = native(case.job());
    let lines = case.lines_before_end(&undisturbed);
    let (mut verdicts, mut left_behind, mut late) = (Verdicts::default(), Vec::new(), 0);
    let workers: Vec<u32> = variants([2, 0, 1, 3], 1).collect();
    for &worker in &workers {
        for time in 0..times {
            // Moments are chosen by printed lines, so that they do not depend on the machine's
            // speed. The last tenth is excluded, so that the process still exists.
            let part = lines * 9 / 10 / times;
            let after = 1 + time * part + random.below(part.max(1) as u64) as usize;
            let delay = Duration::from_micros(random.below(15_000));
            let outcome = case
                .job()
                .kill(Kill::at(worker, Trigger::Lines(after)).after(delay))
                .run();
            let what = format!("worker {worker} killed {delay:?} after line {after} of {lines}");
            let epochs = outcome.last_epoch((worker + 1) % WORKERS);
            println!(
                "{}: {what}: {:?}, {epochs} epochs, recovery in {:?}",
                case.name,
                outcome.wall,
                outcome.slowest_recovery().unwrap_or_default()
            );
            verdicts.judge(&what, || {
                // On a busy machine, the printed lines may be seen after the end of the run: such a
                // kill proves nothing.
                if outcome.has_died_at_the_end() {
                    late += 1;
                    return;
                }
                outcome.assert_success();
                outcome.assert_like_after(&undisturbed, case.files, case.canonical);
                if outcome.had_finalized(worker) {
                    late += 1;
                } else {
                    outcome.assert_taken_over(&[worker]);
                }
            });
            left_behind.extend(outcome.left_behind.iter().cloned());
        }
    }
    verdicts.judge("all runs", || {
        let kills = workers.len() * times;
        assert!(
            late <= (kills / 10).max(1),
            "{late} of {kills} kills came after the end of the program"
        );
        assert!(left_behind.is_empty(), "left behind: {left_behind:?}")
    });
    verdicts.assert_all_good();
}

/// Kills per killed worker: one by default, many in `make sweep`.
fn times() -> usize {
    std::env::var("FFI_TESTS_TIMES")
        .ok()
        .and_then(|times| times.parse().ok())
        .unwrap_or(1)
}

#[test]
fn heat2d_recovers_from_any_failure() {
    kill_workers(&programs::heat2d(), times());
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_recovers_from_any_failure() {
    kill_workers(&programs::cg(), times());
}

#[test]
#[ignore = "a variant: make test-all"]
fn cg_with_a_shared_library_recovers_from_any_failure() {
    // The program is `cg` with its library as a shared object.
    kill_workers(&programs::cg_shared(), times().div_ceil(5));
}

#[test]
fn lammps_recovers_from_any_failure() {
    if let Some(case) = programs::lammps() {
        kill_workers(&case, times());
    }
}
