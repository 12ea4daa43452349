//! Programs whose threads call MPI at the same time (MPI_THREAD_MULTIPLE): who waits gives way to the others, also over a cut.

use ffi_tests::shared::native;
use ffi_tests::{Job, Random, Verdicts, few, place};
use std::path::Path;
use std::time::Duration;

fn job(program: &Path, arguments: &[&str]) -> Job {
    Job::new(program, arguments)
        .workers(3)
        .interval("5calls")
        .limit(Duration::from_secs(60))
}

/// The same bytes, whatever happens.
#[track_caller]
fn assert_survives(job: impl Fn() -> Job, faults: &str) {
    let outcome = job().spares(2).fault(faults).run();
    outcome.assert_success();
    outcome.assert_same_lines(&native(job()));
    outcome.check(outcome.recoveries() > 0, "nobody has died");
    outcome.assert_nothing_left();
}

/// A thread waits for questions from other processes, another one reduces, a third one waits for any of its messages, and the main one
/// has an answer to wait for between two checkpoints.
#[test]
fn threads_that_call_mpi_at_the_same_time_are_brought_back() {
    let (multiple, hybrid) = (place::test_program("multiple"), place::example("hybrid"));
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
    for (program, arguments, faults) in few(rows, 2) {
        verdicts.judge(&format!("{} {arguments:?}: {faults}", program.display()), || {
            assert_survives(|| job(program, arguments), faults);
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn they_are_brought_back_with_mpich() {
    let Some(program) = place::mpich_program("multiple") else {
        return;
    };
    let of_mpich = || job(&program, &["40"]).workers(2).of_mpich();
    // Back to the end of MPI_Init, whose answer the program looks at again, and to a later cut.
    for call in [10, 400] {
        assert_survives(of_mpich, &format!("kill rank=1 at=call:{call}"));
    }
}

#[test]
#[ignore = "a variant: make test-all"]
fn they_are_brought_back_whenever_a_worker_dies() {
    let (mut verdicts, mut random) = (Verdicts::default(), Random::announced("multiple"));
    let program = place::test_program("multiple");
    for round in 0..20 {
        let arguments: &[&str] = if round % 3 == 0 { &["40", "objects"] } else { &["150"] };
        let mut fault = || format!("kill rank={} at=call:{}", random.below(3), 50 + random.below(900));
        let faults = format!("{}; {}", fault(), fault());
        verdicts.judge(&format!("{round}, {arguments:?}: {faults}"), || {
            assert_survives(|| job(&program, arguments), &faults);
        });
    }
    verdicts.assert_all_good();
}
