//! Programs of the distribution's parallel libraries.
//!
//! The programs run under the distribution's Open MPI 4.1, and under the Open MPI of the other
//! tests.

use ffi_tests::native_runs::native;
use ffi_tests::open_mpi_4::with_open_mpi_4;
use ffi_tests::programs::TestProgram;
use ffi_tests::{Job, Kill, Random, Trigger, Verdicts, library_programs, programs, variants};
use std::time::Duration;

/// Workers to kill, one in each run, and lines of output before each kill.
type Deaths = &'static [(u32, usize)];

/// Fails unless the program writes what it writes undisturbed, in spite of each kill.
///
/// `launched` selects the MPI library and the launcher.
fn survives(case: Option<TestProgram>, deaths: Deaths, launched: fn(Job) -> Option<Job>) {
    let Some(case) = case else { return };
    let Some(undisturbed) = with_open_mpi_4(case.job()).map(native) else {
        return;
    };
    let (mut random, mut verdicts) = (Random::announced(case.name), Verdicts::default());
    for (worker, lines) in variants(deaths.iter().copied(), 1) {
        let Some(job) = launched(case.job()) else {
            return;
        };
        let delay = Duration::from_millis(random.below(20));
        let outcome = job
            .kill(Kill::at(worker, Trigger::Lines(lines)).after(delay))
            .run();
        let what = format!(
            "{}, worker {worker} {delay:?} after line {lines}",
            case.name
        );
        verdicts.judge(&what, || {
            outcome.assert_success();
            outcome.assert_like_after(&undisturbed, case.files, case.canonical);
            outcome.assert_nothing_left();
            outcome.assert_taken_over(&[worker]);
        });
    }
    verdicts.assert_all_good();
}

#[test]
fn a_worker_of_a_program_of_hdf5_dies() {
    survives(
        library_programs::hdf5(),
        &[(2, 15), (0, 30), (1, 2), (3, 22), (0, 9)],
        with_open_mpi_4,
    );
}

#[test]
#[ignore = "a variant"]
fn a_worker_of_a_program_of_hdf5_dies_with_another_open_mpi() {
    survives(library_programs::hdf5(), &[(0, 19), (3, 6), (1, 31)], Some);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_a_program_of_netcdf_dies() {
    survives(
        library_programs::netcdf(),
        &[(1, 12), (0, 24), (3, 1), (2, 33)],
        with_open_mpi_4,
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_lammps_that_writes_by_mpi_io_dies() {
    survives(
        programs::lammps_by_mpi_io(),
        &[(2, 40), (0, 55), (3, 34), (1, 62)],
        with_open_mpi_4,
    );
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_a_program_of_petsc_with_mumps_dies() {
    survives(
        library_programs::mumps(),
        &[(0, 5), (2, 8), (1, 1), (0, 9)],
        with_open_mpi_4,
    );
}

#[test]
fn a_worker_of_a_program_of_the_cxx_bindings_dies() {
    let Some(job) = library_programs::bindings(&[]) else {
        return;
    };
    let undisturbed = native(job);
    let job = library_programs::bindings(&[]).expect("the program is compiled");
    let outcome = job.kill(Kill::at(1, Trigger::Lines(20))).run();
    outcome.assert_success();
    outcome.assert_like(&undisturbed, &[]);
    outcome.assert_taken_over(&[1]);
}

#[test]
fn an_exception_of_the_cxx_bindings_ends_the_job_with_a_word() {
    let Some(job) = library_programs::bindings(&["throws"]) else {
        return;
    };
    let outcome = job.run();
    outcome.check(
        outcome.status.is_some_and(|status| !status.success()),
        "the job does not fail",
    );
    let is_reason = |line: &&str| line.contains("exceptions of the C++ bindings are not supported");
    outcome.check(
        outcome.own_lines().iter().any(is_reason),
        "no line of understudy names the bindings",
    );
}
