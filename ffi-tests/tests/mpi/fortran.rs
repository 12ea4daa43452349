//! Fortran programs of mpif.h, of the module mpi and of mpi_f08.
//!
//! The bindings are those of the distribution's Open MPI.

use ffi_tests::native_runs::native;
use ffi_tests::open_mpi_4::{fortran, with_open_mpi_4};
use ffi_tests::{Job, Kill, Outcome, Trigger, Verdicts, variants};
use std::process::Command;

const ANSWERS: (&str, &[&str]) = ("answers", &["40"]);
const HEAT: (&str, &[&str]) = ("heat", &["200", "1000"]);
const RECORDS: (&str, &[&str]) = ("records", &["700"]);
const FORTRAN_77: (&str, &[&str]) = ("legacy", &["700"]);
const DETAILS: (&str, &[&str]) = ("details", &["40"]);

type Program = (&'static str, &'static [&'static str]);

fn job((name, arguments): Program) -> Option<Job> {
    let interval = if name == "heat" { "0.02s" } else { "7calls" };
    fortran(name, arguments).map(|job| job.workers(3).interval(interval))
}

/// Fails unless the program prints, in spite of each kill, what it prints undisturbed.
///
/// The undisturbed run uses the Open MPI that the bindings belong to.
fn survives(program: Program, kills: &[(u32, usize)], launched: fn(Job) -> Option<Job>) {
    let Some(undisturbed) = job(program).and_then(with_open_mpi_4).map(native) else {
        return;
    };
    let mut verdicts = Verdicts::default();
    for &(rank, lines) in kills {
        let Some(job) = job(program).and_then(launched) else {
            return;
        };
        let outcome = job.kill(Kill::at(rank, Trigger::Lines(lines))).run();
        verdicts.judge(
            &format!("{program:?}, worker {rank} after {lines} lines"),
            || {
                assert_like(&outcome, &undisturbed);
                outcome.assert_taken_over(&[rank]);
            },
        );
    }
    verdicts.assert_all_good();
}

fn assert_like(outcome: &Outcome, undisturbed: &Outcome) {
    outcome.assert_success();
    outcome.check(outcome.stdout == undisturbed.stdout, "the output differs");
    outcome.assert_nothing_left();
}

#[test]
fn what_mpi_answers_to_fortran_2008() {
    let kills: Vec<_> = variants([(1, 6), (0, 20), (2, 33), (0, 1)], 1).collect();
    survives(ANSWERS, &kills, with_open_mpi_4);
}

#[test]
fn a_worker_of_a_program_of_the_module_dies() {
    let kills: Vec<_> = variants([(2, 40), (0, 45), (1, 5)], 1).collect();
    survives(HEAT, &kills, with_open_mpi_4);
}

#[test]
fn a_worker_of_a_program_of_mpif_h_dies() {
    let kills: Vec<_> = variants([(1, 20), (0, 40), (2, 2)], 1).collect();
    survives(FORTRAN_77, &kills, with_open_mpi_4);
}

/// The program uses features that the bindings implement without procedures in C.
#[test]
fn texts_datatypes_by_size_and_arguments_of_spawned_programs() {
    survives(DETAILS, &[(1, 300)], with_open_mpi_4);
}

#[test]
fn a_library_that_wraps_procedures_of_fortran_sees_the_calls() {
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let library = directory.path().join("libcounting.so");
    let mut command = Command::new("cc");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/fortran/profiler.c");
    let status = command
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "cc fails");
    let preloaded = || Some(job(HEAT)?.preload(&library));
    let Some(undisturbed) = preloaded().and_then(with_open_mpi_4).map(native) else {
        return;
    };
    let assert_counted = |outcome: &Outcome| {
        let counts = outcome.stderr.matches("1000 waits").count();
        outcome.check(counts == 3, "not each process has counted its calls");
    };
    assert_counted(&undisturbed);
    let Some(job) = preloaded().and_then(with_open_mpi_4) else {
        return;
    };
    let outcome = job.kill(Kill::at(1, Trigger::Lines(40))).run();
    assert_like(&outcome, &undisturbed);
    assert_counted(&outcome);
    outcome.assert_taken_over(&[1]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_data_representation_is_registered_or_not() {
    survives(("represented", &["400"]), &[(1, 30)], with_open_mpi_4);
}

/// The output shows the content of the files.
#[test]
fn overwritten_records_are_restored() {
    let kills: Vec<_> = variants([(1, 200), (0, 450), (2, 50)], 1).collect();
    survives(RECORDS, &kills, with_open_mpi_4);
}

/// The bindings are wrappers, and understudy opens any installed libmpi.
#[test]
fn bindings_of_one_open_mpi_work_with_another() {
    for program in variants([ANSWERS, FORTRAN_77, HEAT], 1) {
        survives(program, &[(1, 10)], Some);
    }
}
