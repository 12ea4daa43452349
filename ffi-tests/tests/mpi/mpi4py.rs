//! Mpi4py's own tests have equal verdicts in all runs.
//!
//! The runs are: without understudy, with understudy, and with a failed worker. `make conformance`
//! runs all of the tests.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Requirement, paths, skip};

/// A few areas of the standard.
const MODULES: [&str; 6] = [
    "test_attributes",
    "test_comm_inter",
    "test_errhandler",
    "test_group",
    "test_request",
    "test_session",
];

/// Makes a job of two workers that runs these modules.
///
/// Returns `None`, and prints the reason, if mpi4py's tests are not installed.
fn modules() -> Option<Job> {
    let python = paths::workspace().join(".env/python/bin/python3");
    let tests = paths::workspace().join(".env/python/mpi4py-tests");
    if !tests.is_dir() {
        skip(
            Requirement::Python,
            "mpi4py's tests are not installed; `make python` installs them",
        );
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/modules.py");
    let library = paths::libmpi();
    let directory = library
        .parent()
        .unwrap_or(&library)
        .to_string_lossy()
        .into_owned();
    let tests = tests.to_string_lossy();
    let arguments = [&[script, &*tests][..], &MODULES].concat();
    let job = Job::new(python, &arguments)
        .workers(2)
        .env("LD_LIBRARY_PATH", &directory)
        .env("OPENBLAS_NUM_THREADS", "1");
    Some(job.env("PYTHONDONTWRITEBYTECODE", "1"))
}

#[test]
fn modules_of_mpi4py_s_tests_have_equal_verdicts() {
    let (Some(plain), Some(layered)) = (modules(), modules()) else {
        return;
    };
    let undisturbed = native(plain);
    undisturbed.assert_success();
    let outcome = layered.run();
    outcome.assert_success();
    outcome.assert_same_lines(&undisturbed);
    outcome.assert_nothing_left();
}

#[test]
#[ignore = "a variant: make test-all"]
fn a_worker_may_die_in_mpi4py_s_tests() {
    let (Some(plain), Some(layered)) = (modules(), modules()) else {
        return;
    };
    let undisturbed = native(plain);
    let outcome = layered
        .interval("3calls")
        .fault("kill rank=1 at=call:300")
        .run();
    outcome.assert_success();
    outcome.assert_same_lines(&undisturbed);
    outcome.assert_taken_over(&[1]);
}
