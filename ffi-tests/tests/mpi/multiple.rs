//! Programs whose threads call MPI concurrently (MPI_THREAD_MULTIPLE).
//!
//! A waiting thread yields the MPI lock to the others, also during a cut.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Random, Verdicts, is_thorough, paths, variants};
use std::path::Path;

fn job(program: &Path, arguments: &[&str]) -> Job {
    Job::new(program, arguments).workers(3).interval("5calls")
}

/// Fails unless the output is undisturbed in spite of these faults.
#[track_caller]
fn assert_survives(job: impl Fn() -> Job, faults: &str) {
    let outcome = job().spares(2).fault(faults).run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(job()));
    outcome.check(outcome.recoveries() > 0, "no process has failed");
    outcome.assert_nothing_left();
}

/// A worker fails while four of its threads call MPI; all threads continue.
///
/// A thread serves requests of other processes, a second one reduces, and a third one waits for any
/// of its messages. The main thread waits for an answer between two checkpoints.
#[test]
fn threads_that_call_mpi_at_the_same_time_are_brought_back() {
    let (multiple, hybrid) = (paths::test_program("multiple"), paths::example("hybrid"));
    let strips = &["300", "120", "100", "--threads", "3", "--multiple"][..];
    let rows = [
        (&multiple, &["150"][..], "kill rank=1 at=call:900"),
        (
            &multiple,
            &["40", "objects"],
            "kill rank=2 at=commit.end epoch=4; kill rank=0 at=call:700",
        ),
        (&hybrid, strips, "kill rank=1 at=call:150"),
        (&hybrid, &strips[..5], "kill rank=2 at=cut.begin epoch=7"),
        (
            &multiple,
            &["150"],
            "kill rank=0 at=cut.end epoch=5; kill rank=1 at=load.end",
        ),
        (
            &multiple,
            &["150"],
            "pretend no-memfd; kill rank=2 at=capture.end epoch=6",
        ),
    ];
    let mut verdicts = Verdicts::default();
    for (program, arguments, faults) in variants(rows, 1) {
        verdicts.judge(
            &format!("{} {arguments:?}: {faults}", program.display()),
            || {
                assert_survives(|| job(program, arguments), faults);
            },
        );
    }
    verdicts.assert_all_good();
}

/// Compares runs with these faults with a run under understudy without failures.
///
/// Open MPI alone deadlocks in this program.
#[track_caller]
fn assert_as_undisturbed(job: impl Fn() -> Job, faults: &[String]) {
    let undisturbed = job().run();
    undisturbed.assert_success();
    let mut verdicts = Verdicts::default();
    for fault in faults {
        verdicts.judge(fault, || {
            let outcome = job().spares(2).fault(fault).run();
            outcome.assert_success();
            outcome.assert_like(&undisturbed, &[]);
            outcome.check(outcome.recoveries() > 0, "no process has failed");
            outcome.assert_nothing_left();
        });
    }
    verdicts.assert_all_good();
}

/// Threads make communicators of disjoint processes and connect; a worker fails meanwhile.
///
/// Collectives of two groups run concurrently. Some threads wait in MPI for messages of other
/// threads of their process.
#[test]
fn threads_make_communicators_and_connect_at_the_same_time() {
    let program = paths::test_program("constructors");
    let assert = |arguments: &[&str], calls: &[(u32, u32)]| {
        let faults =
            variants(calls, 1).map(|(rank, call)| format!("kill rank={rank} at=call:{call}"));
        assert_as_undisturbed(|| job(&program, arguments), &faults.collect::<Vec<_>>());
    };
    assert(&["10", "ports"], &[(1, 45), (0, 90), (2, 300), (1, 500)]);
    if is_thorough() {
        assert(&["10"], &[(2, 78), (0, 300), (1, 360)]);
    }
}

/// A callback waits for a lock of a thread that calls MPI, as in interpreters.
#[test]
fn a_callback_may_wait_for_a_thread_that_calls_mpi() {
    let program = paths::test_program("callbacks");
    for (rank, call) in variants([(1, 300), (0, 90), (2, 600), (1, 150)], 1) {
        assert_survives(
            || job(&program, &["20"]),
            &format!("kill rank={rank} at=call:{call}"),
        );
    }
    let of_mpich = is_thorough().then(|| paths::mpich_program("callbacks"));
    if let Some(program) = of_mpich.flatten() {
        let of_mpich = || job(&program, &["5"]).workers(2).of_mpich();
        assert_survives(of_mpich, "kill rank=1 at=call:150");
    }
}

#[test]
fn threads_make_communicators_at_the_same_time_with_mpich() {
    let Some(program) = paths::mpich_program("constructors") else {
        return;
    };
    let of_mpich = || job(&program, &["10"]).workers(2).of_mpich();
    assert_survives(of_mpich, "kill rank=1 at=call:150");
}

#[test]
fn threads_are_brought_back_with_mpich() {
    let Some(program) = paths::mpich_program("multiple") else {
        return;
    };
    let of_mpich = || job(&program, &["40"]).workers(2).of_mpich();
    // Rolls back to the end of MPI_Init, whose result the program checks again, and to a later
    // cut.
    for call in [10, 400] {
        assert_survives(of_mpich, &format!("kill rank=1 at=call:{call}"));
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn threads_make_communicators_whenever_a_worker_dies() {
    let mut random = Random::announced("constructors");
    let program = paths::test_program("constructors");
    for arguments in [&["10", "ports"][..], &["10"]] {
        for interval in ["5calls", "8ms"] {
            let mut fault = || {
                format!(
                    "kill rank={} at=call:{}",
                    random.below(3),
                    20 + random.below(400)
                )
            };
            let faults: Vec<String> = (0..15)
                .map(|_| format!("{}; {}", fault(), fault()))
                .collect();
            assert_as_undisturbed(|| job(&program, arguments).interval(interval), &faults);
        }
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn threads_are_brought_back_whenever_a_worker_dies() {
    let (mut verdicts, mut random) = (Verdicts::default(), Random::announced("multiple"));
    let program = paths::test_program("multiple");
    for round in 0..20 {
        let arguments: &[&str] = if round % 3 == 0 {
            &["40", "objects"]
        } else {
            &["150"]
        };
        let mut fault = || {
            format!(
                "kill rank={} at=call:{}",
                random.below(3),
                50 + random.below(900)
            )
        };
        let faults = format!("{}; {}", fault(), fault());
        verdicts.judge(&format!("{round}, {arguments:?}: {faults}"), || {
            assert_survives(|| job(&program, arguments), &faults);
        });
    }
    verdicts.assert_all_good();
}
