//! Files in representations of the program's own (MPI 4.1, 14.5.3).
//!
//! Without the layer, Open MPI 5.0.11 (OMPIO, ROMIO) and MPICH refuse functions that convert when they are registered. So nothing is
//! compared with a run without the layer: the program compares the bytes of its files with what its functions say, and runs with
//! deaths are compared with one without under the layer.

use ffi_tests::{Job, Outcome, Verdicts, few, place};
use std::path::Path;

const WORKERS: u32 = 4;
/// Rounds, pause in milliseconds, and the round that registers a representation.
const ARGUMENTS: [&str; 3] = ["8", "2", "4"];

fn job(program: &Path) -> Job {
    Job::new(program, &ARGUMENTS).interval("17calls")
}

fn undisturbed(job: Job) -> Outcome {
    let outcome = job.run();
    outcome.assert_success();
    let text = String::from_utf8_lossy(&outcome.stdout);
    outcome.check(
        text.contains("round 7:") && text.contains("ok wrong == 0") && !text.contains("FAILED"),
        "the program finds another content of its files",
    );
    outcome.assert_nothing_left();
    outcome
}

fn assert_same(outcome: &Outcome, undisturbed: &Outcome, workers: u32) {
    let own: Vec<String> = (0..workers).map(|worker| format!("own.{worker}")).collect();
    let files = ["early.dat", "late.dat", "plain.dat"].into_iter();
    let files: Vec<&str> = files.chain(own.iter().map(String::as_str)).collect();
    outcome.assert_success();
    outcome.assert_like(undisturbed, &files);
    outcome.assert_nothing_left();
}

/// Deaths before and after the registration in mid-run, and one that leads back to before it.
#[test]
fn a_worker_dies_whose_files_it_converts_itself() {
    let make = || job(&place::test_program("datareps"));
    let expected = undisturbed(make());
    let mut verdicts = Verdicts::default();
    let epochs = [
        (1, 12),
        (2, 3),
        (0, 7),
        (3, 9),
        (1, 5),
        (2, 10),
        (0, 8),
        (3, 14),
    ];
    for (rank, epoch) in few(epochs, 4) {
        let fault = format!("kill rank={rank} at=cut.end epoch={epoch}");
        let outcome = make().fault(&fault).run();
        verdicts.judge(&fault, || {
            assert_same(&outcome, &expected, WORKERS);
            outcome.assert_taken_over(&[rank]);
        });
    }
    verdicts.assert_all_good();
}

/// What is registered in the recorded phase is there, though a newcomer replays it.
#[test]
fn a_representation_of_the_initialisation_phase_is_there_after_a_replay() {
    let make = || job(&place::test_program("datareps")).env("UNDERSTUDY_STATIC", "replay");
    let expected = undisturbed(make());
    let outcome = make().fault("kill rank=2 at=cut.end epoch=9").run();
    assert_same(&outcome, &expected, WORKERS);
    outcome.assert_taken_over(&[2]);
}

/// The functions get handles of the program's own ABI.
#[test]
fn a_worker_of_mpich_dies() {
    let Some(program) = place::mpich_program("datareps") else {
        return;
    };
    let make = || job(&program).workers(2).of_mpich();
    let expected = undisturbed(make());
    let outcome = make().fault("kill rank=1 at=cut.end epoch=9").run();
    assert_same(&outcome, &expected, 2);
    outcome.assert_taken_over(&[1]);
}
