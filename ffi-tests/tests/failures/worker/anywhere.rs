//! Checkpoints of programs whose loops have no blocking collective over all workers.

use ffi_tests::native_runs::native;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Kill, Random, Trigger, Verdicts, is_thorough, paths, variants};
use std::time::Duration;

const WORKERS: u32 = 4;

fn job(how: &str, steps: &str) -> Job {
    Job::new(paths::test_program("anywhere"), &[how, steps]).interval("20ms")
}

/// Programs with numbers of steps that take a few seconds.
fn cases() -> [TestProgram; 13] {
    [
        programs::prints("anywhere ring", || job("ring", "3000")),
        programs::prints("anywhere halo", || job("halo", "4000")),
        programs::prints("anywhere farm", || job("farm", "8000")),
        programs::prints("anywhere pairs", || job("pairs", "4000")),
        programs::prints("anywhere rows", || job("rows", "4000")),
        programs::prints("anywhere post", || job("post", "3000")),
        programs::prints("anywhere locks", || job("locks", "4000")),
        programs::prints("anywhere queue", || job("queue", "4000")),
        programs::prints("anywhere fences", || job("fences", "2000")),
        TestProgram {
            files: &["record.dat"],
            ..programs::prints("anywhere record", || job("record", "2500"))
        },
        programs::prints("multiple", || {
            Job::new(paths::test_program("multiple"), &["1500", "local"]).interval("20ms")
        }),
        programs::prints("anywhere sparse", || job("sparse", "6000")),
        programs::prints("anywhere looks", || job("looks", "5000")),
    ]
}

/// Runs a job in which `worker` fails; judges if it recovers and has had checkpoints.
fn die(verdicts: &mut Verdicts, case: &TestProgram, job: Job, worker: u32, what: &str) {
    let undisturbed = native(case.job());
    let outcome = job.run();
    let epochs = outcome.last_epoch((worker + 1) % WORKERS);
    println!("{}: {what}: {:?}, {epochs} epochs", case.name, outcome.wall);
    verdicts.judge(&format!("{}: {what}", case.name), || {
        outcome.assert_success();
        outcome.assert_like_after(&undisturbed, case.files, case.canonical);
        outcome.assert_taken_over(&[worker]);
        outcome.assert_nothing_left();
        outcome.check(epochs > 3, "hardly any checkpoint");
    });
}

fn die_at_points(case: &TestProgram, indices: impl IntoIterator<Item = usize>) {
    let mut verdicts = Verdicts::default();
    for index in indices {
        let (worker, point) = (index as u32 % WORKERS, POINTS[index % POINTS.len()]);
        let fault = format!("kill rank={worker} at={point} epoch=4");
        die(
            &mut verdicts,
            case,
            case.job().fault(&fault),
            worker,
            &fault,
        );
    }
    verdicts.assert_all_good();
}

fn die_at_random(case: &TestProgram, times: usize) {
    let mut random = Random::announced(case.name);
    let mut verdicts = Verdicts::default();
    for _ in 0..times {
        let worker = random.below(u64::from(WORKERS)) as u32;
        let epoch = 2 + random.below(4);
        let delay = Duration::from_micros(random.below(60_000));
        let kill = Kill::at(
            worker,
            Trigger::Commit {
                rank: worker,
                epoch,
            },
        )
        .after(delay);
        let what = format!("worker {worker} killed {delay:?} after epoch {epoch}");
        die(&mut verdicts, case, case.job().kill(kill), worker, &what);
    }
    verdicts.assert_all_good();
}

/// Fault points of a checkpoint, in the order in which a worker passes them.
const POINTS: &[&str] = &[
    "cut.begin",
    "cut.agreed",
    "cut.end",
    "capture.end",
    "ship.begin",
    "whole.begin",
    "commit.begin",
    "commit.end",
];

/// Number of kills of a program at random moments, if thorough.
const RANDOM_KILLS: usize = 30;

/// Kills workers of a program of [`cases`] at fault points and at random moments.
///
/// Unless thorough, one worker is killed at one point, which differs from program to program.
fn assert_survives(index: usize) {
    let case = &cases()[index];
    if is_thorough() {
        die_at_points(case, 0..POINTS.len());
        die_at_random(case, RANDOM_KILLS);
    } else {
        die_at_points(case, [index]);
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_ring_survives() {
    assert_survives(0);
}

#[test]
#[ignore = "a variant: make test-all"]
fn an_exchange_of_halos_survives() {
    assert_survives(1);
}

#[test]
fn a_master_and_its_workers_survive() {
    assert_survives(2);
}

#[test]
#[ignore = "a variant: make test-all"]
fn blocking_persistent_and_probed_messages_survive() {
    assert_survives(3);
}

#[test]
#[ignore = "a variant: make test-all"]
fn collectives_of_some_workers_survive() {
    assert_survives(4);
}

#[test]
fn general_epochs_of_windows_survive() {
    assert_survives(5);
}

/// A worker fails that has locked a window or waits for a lock.
#[test]
fn locks_survive() {
    assert_survives(6);
}

#[test]
#[ignore = "a variant: make test-all"]
fn atomic_operations_in_one_long_epoch_survive() {
    assert_survives(7);
}

#[test]
#[ignore = "a variant: make test-all"]
fn fences_of_some_workers_survive() {
    assert_survives(8);
}

#[test]
fn a_ring_that_writes_a_file_survives() {
    assert_survives(9);
}

#[test]
fn threads_that_call_at_the_same_time_survive() {
    assert_survives(10);
}

/// A synchronous send completes when the program receives the message, not at the cut.
///
/// The program ends a step when all sends have completed. If a send completed at the cut, its
/// message would be received in a later step.
#[test]
fn synchronous_sends_complete_when_all_have_been_received() {
    assert_survives(11);
}

#[test]
fn calls_that_poll_for_messages_survive() {
    assert_survives(12);
}

/// Workers wait for each other in shared memory; the job continues, also after failures.
///
/// A worker that has stopped for a cut continues without the cut if another worker, which waits for
/// its write, does not reach the cut.
#[test]
fn no_worker_stops_for_one_that_waits_in_memory() {
    let job = || job("memory", "1500");
    let undisturbed = native(job());
    let deaths = ["kill rank=0 at=call:500", "kill rank=1 at=call:1400"];
    for faults in variants([Some(deaths.join("; ")), None], 1) {
        let outcome = match &faults {
            Some(faults) => job().spares(2).fault(faults).run(),
            None => job().run(),
        };
        outcome.assert_success();
        outcome.assert_like(&undisturbed, &[]);
        outcome.assert_nothing_left();
        if faults.is_some() {
            outcome.assert_replaced(&[0, 1]);
        }
    }
}

#[test]
fn general_epochs_of_windows_of_mpich_survive() {
    let Some(program) = paths::mpich_program("anywhere") else {
        return;
    };
    let job = || {
        Job::new(&program, &["post", "8000"])
            .workers(2)
            .interval("20ms")
            .of_mpich()
    };
    let alone = native(job());
    let outcome = job().fault("kill rank=1 at=cut.end epoch=4").run();
    outcome.assert_success();
    outcome.assert_like(&alone, &[]);
    outcome.assert_taken_over(&[1]);
    outcome.assert_nothing_left();
}
