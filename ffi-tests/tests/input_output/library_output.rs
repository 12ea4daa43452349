//! Lines that the MPI library prints on standard output.
//!
//! No line of the program is missing or printed twice.

use ffi_tests::native_runs::native;
use ffi_tests::programs::HEAT2D;
use ffi_tests::{Job, fault_at_commit, paths, variants};
use std::path::Path;

/// Makes a job in which MPICH prints a summary in each MPI_Init.
///
/// A replacement prints its second summary, because it has initialised MPI before, as a spare.
fn with_summary(program: &Path) -> Job {
    let job = Job::new(program, &HEAT2D).workers(2).interval("50calls");
    job.of_mpich().env("MPIR_CVAR_DEBUG_SUMMARY", "1")
}

#[test]
fn what_the_mpi_library_prints_costs_no_line_of_the_program() {
    let Some(program) = paths::mpich_example("heat2d") else {
        return;
    };
    let undisturbed = native(with_summary(&program));
    assert!(
        String::from_utf8_lossy(&undisturbed.stdout).contains("data structure summary"),
        "the library prints no summary"
    );
    with_summary(&program).run().assert_same_lines(&undisturbed);
    for worker in variants([0, 1], 1) {
        let fault = fault_at_commit(worker, 4);
        let outcome = with_summary(&program).fault(&fault).run();
        outcome.assert_success();
        outcome.assert_same_lines(&undisturbed);
        outcome.assert_taken_over(&[worker]);
    }
}
