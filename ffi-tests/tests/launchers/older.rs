//! The distribution's older Open MPI (4.1) with its launcher.
//!
//! Programs of this Open MPI are protected under a plain mpirun like programs of Open MPI 5.

use ffi_tests::native_runs::native;
use ffi_tests::open_mpi_4::with_open_mpi_4;
use ffi_tests::paths;
use ffi_tests::programs::{self, TestProgram};
use ffi_tests::{Job, Kill, Trigger};

/// Kills workers after these numbers of lines; fails unless output and files are undisturbed.
fn survives(case: &TestProgram, kills: &[(u32, usize)]) {
    let Some(job) = with_open_mpi_4(case.job()) else {
        return;
    };
    let kill =
        |job: Job, &(rank, lines): &(u32, usize)| job.kill(Kill::at(rank, Trigger::Lines(lines)));
    let outcome = kills.iter().fold(job, kill).run();
    outcome.assert_success();
    let undisturbed = with_open_mpi_4(case.job())
        .map(native)
        .expect("Open MPI 4 is installed");
    outcome.assert_like_after(&undisturbed, case.files, case.canonical);
    outcome.assert_nothing_left();
    let victims: Vec<u32> = kills.iter().map(|&(rank, _)| rank).collect();
    outcome.assert_taken_over(&victims);
}

#[test]
fn workers_die_one_after_the_other_without_a_spare_for_the_second() {
    survives(&programs::heat2d(), &[(2, 10), (0, 25)]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_of_lammps_dies() {
    if let Some(case) = programs::lammps() {
        survives(&case, &[(1, 30)]);
    }
}

#[test]
fn persistent_collectives_have_the_names_of_this_version() {
    let job = || Job::new(paths::test_program("older_names"), &[]).interval("3calls");
    let Some(undisturbed) = with_open_mpi_4(job()).map(native) else {
        return;
    };
    undisturbed.assert_success();
    let kill = Kill::at(1, Trigger::Lines(20));
    let outcome = with_open_mpi_4(job())
        .expect("Open MPI 4 is installed")
        .kill(kill)
        .run();
    outcome.assert_success();
    outcome.assert_same_lines(&undisturbed);
    outcome.assert_taken_over(&[1]);
}
