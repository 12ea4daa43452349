//! Parameters of Open MPI's components, set by the user: survivors are rolled back in place.

use ffi_tests::native_runs::native;
use ffi_tests::programs::HEAT2D;
use ffi_tests::{Job, fault_at_commit, paths};

fn job() -> Job {
    Job::new(paths::example("heat2d"), &HEAT2D)
        .workers(2)
        .interval("50calls")
}

/// Fails unless the job recovers from a failure and the survivor keeps its process.
///
/// A survivor whose library cannot be reset would exit. Both workers would have failed then, and
/// the job would be lost.
fn assert_recovered(job: Job) {
    let outcome = job.fault(&fault_at_commit(1, 4)).run();
    outcome.assert_success();
    outcome.assert_like(&native(self::job()), &["heat.field", "heat.log"]);
    outcome.assert_taken_over(&[1]);
    outcome.check(
        !outcome.stderr.contains("cannot be closed"),
        "a survivor has not been reset",
    );
    outcome.assert_nothing_left();
}

#[test]
fn the_users_exclusions_are_added_to_those_of_understudy() {
    assert_recovered(job().env("OMPI_MCA_btl", "^ofi"));
    assert_recovered(
        job()
            .env("OMPI_MCA_btl", "^usnic")
            .env("UNDERSTUDY_STATIC", "replay"),
    );
}

#[test]
fn a_file_of_parameters_counts_as_the_users() {
    let home = tempfile::tempdir().expect("there is room for temporary files");
    let directory = home.path().join(".openmpi");
    std::fs::create_dir(&directory).expect("the directory is new");
    std::fs::write(directory.join("mca-params.conf"), "btl = ^ofi # slow\n")
        .expect("there is room");
    let path = home.path().to_str().expect("text").to_owned();
    assert_recovered(job().env("HOME", &path));
}

#[test]
fn a_driver_that_the_user_names_is_opened_in_advance() {
    let job = job()
        .env("OMPI_MCA_pml", "ucx")
        .env("OMPI_MCA_opal_common_ucx_tls", "any")
        .env("OMPI_MCA_opal_common_ucx_devices", "any");
    assert_recovered(job);
}

/// Libfabric monitors the memory functions of the MPI side only.
///
/// Memory that the program unmaps would therefore stay registered, even if the user wants it.
#[test]
fn libfabric_caches_no_registrations() {
    let job = || {
        job()
            .env("OMPI_MCA_btl", "self,sm,ofi")
            .env("FI_LOG_LEVEL", "info")
    };
    let monitor_of = |job: Job| {
        let outcome = job.run();
        outcome.assert_success();
        let found = outcome
            .stderr
            .lines()
            .find_map(|line| line.split_once("read string var mr_cache_monitor="));
        found.map(|(_, monitor)| monitor.to_owned())
    };
    let wanted = job().env("FI_MR_CACHE_MONITOR", "memhooks");
    assert_eq!(monitor_of(wanted).as_deref(), Some("disabled"));
}
