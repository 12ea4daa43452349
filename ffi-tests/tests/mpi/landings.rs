//! Memory that a network device writes, which the kernel's write tracking does not report.
//!
//! The fault `blind` hides what the MPI library writes from the kernel, as if a device had written
//! into registered memory. The program `registered` has such a device: a ring of io_uring.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, Outcome, Requirement, fault_at_commit, paths, programs, skip};
use std::fs;
use std::process::Command;

/// Kills workers 1 and 2 while the library's writes are hidden.
///
/// The second death follows a whole interval, so the survivors have received much since the
/// checkpoint to which they return.
fn faults() -> String {
    let second = fault_at_commit(2, 22).replace("commit.end", "cut.begin");
    format!("blind; {}; {second}", fault_at_commit(1, 9))
}

fn landings() -> Job {
    Job::new(paths::test_program("landings"), &["20", "1"]).interval("17calls")
}

fn registered() -> Job {
    Job::new(paths::test_program("registered"), &["60", "1"]).interval("5calls")
}

fn tracked(job: Job, tracking: &str) -> Job {
    job.env("UNDERSTUDY_TRACKING", tracking)
}

/// Returns the number of lines that differ from those of an undisturbed run.
fn count_differences(outcome: &Outcome, undisturbed: &Outcome) -> usize {
    let lines = |outcome: &Outcome| -> Vec<Vec<u8>> {
        let lines = outcome.stdout.split(|&byte| byte == b'\n');
        lines.map(<[u8]>::to_vec).collect()
    };
    let (seen, expected) = (lines(outcome), lines(undisturbed));
    assert_eq!(seen.len(), expected.len());
    seen.iter()
        .zip(&expected)
        .filter(|(seen, expected)| seen != expected)
        .count()
}

#[test]
fn hidden_writes_are_restored_if_landings_are_compared() {
    let outcome = tracked(landings(), "landings")
        .spares(2)
        .fault(&faults())
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(landings()), &[]);
    outcome.assert_replaced(&[1, 2]);
}

/// Shows that the test above could fail: each kind of call loses data without landings.
///
/// `MPI_Sendrecv_replace` loses none, because its program fills the buffer itself.
#[test]
fn hidden_writes_are_lost_with_the_kernels_tracking_alone() {
    const KINDS: usize = 25;
    let outcome = tracked(landings(), "pagemap")
        .spares(2)
        .fault(&faults())
        .run();
    outcome.assert_success();
    outcome.assert_replaced(&[1, 2]);
    assert_eq!(count_differences(&outcome, &native(landings())), KINDS - 1);
}

/// Returns the outcome of an undisturbed run of `registered`; `None` without io_uring.
fn undisturbed_device() -> Option<Outcome> {
    let alone = registered().native().run();
    if alone.status.is_some_and(|status| status.code() == Some(77)) {
        skip(Requirement::Machine, "io_uring is not permitted");
        return None;
    }
    alone.assert_success();
    Some(alone)
}

#[test]
fn what_a_device_has_written_is_restored_if_landings_are_compared() {
    let Some(alone) = undisturbed_device() else {
        return;
    };
    let fault = fault_at_commit(1, 9);
    let outcome = tracked(registered(), "landings").fault(&fault).run();
    outcome.assert_success();
    outcome.assert_replaced(&[1]);
    assert_eq!(count_differences(&outcome, &alone), 0);
    let outcome = tracked(registered(), "pagemap").fault(&fault).run();
    outcome.assert_success();
    assert_eq!(
        count_differences(&outcome, &alone),
        1,
        "nothing was to be lost"
    );
}

/// Provider of libfabric that opens a device when the library is loaded.
const OPENS_DEVICE: &str = r#"
#include <fcntl.h>
__attribute__((constructor)) static void begin(void)
{
    open("/dev/infiniband/uverbs0", O_RDWR);
}
"#;

/// Executes a program with another `/dev`, in which a file stands for a device.
const WITH_DEVICE: &str = r#"#!/bin/sh
exec unshare --mount sh -c '
    mount -t tmpfs none "$0"
    for file in null zero full random urandom; do
        touch "$0/$file" && mount --bind "/dev/$file" "$0/$file"
    done
    mkdir "$0/shm" "$0/infiniband" && mount --bind /dev/shm "$0/shm"
    touch "$0/infiniband/uverbs0"
    mount --rbind "$0" /dev && exec "$@"
' DEV "$@"
"#;

/// No setting of the job permits a device.
#[test]
fn a_device_that_the_library_opens_by_itself_is_noticed() {
    let Some(program) = paths::mpich_program("landings") else {
        return;
    };
    let mounts = Command::new("unshare").args(["--mount", "true"]).status();
    if !mounts.is_ok_and(|status| status.success()) {
        skip(Requirement::Namespaces, "mounts are not permitted");
        return;
    }
    let directory = tempfile::tempdir().expect("there is room for temporary files");
    let [source, library, dev, script] =
        ["device.c", "libdevice-fi.so", "dev", "start"].map(|name| directory.path().join(name));
    fs::create_dir(&dev).expect("writable");
    fs::write(&source, OPENS_DEVICE).expect("writable");
    let mut compiler = Command::new("cc");
    let compiled = compiler
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source]);
    assert!(compiled.status().expect("there is a cc(1)").success());
    paths::script(&script, &WITH_DEVICE.replace("DEV", &dev.to_string_lossy()));
    let job = || Job::new(&program, &["20", "1"]).of_mpich();
    let outcome = job()
        .interval("17calls")
        .spares(2)
        .env("MPIR_CVAR_CH4_NETMOD", "ofi")
        .env("FI_PROVIDER_PATH", &directory.path().to_string_lossy())
        .fault(&faults())
        .started_by(&script)
        .run();
    outcome.assert_success();
    outcome.assert_like(&native(job()), &[]);
    outcome.check(
        outcome.stderr.contains("[fabric-compared]"),
        "the device is not named",
    );
}

/// Runs a program of an area of MPI whose workers die while writes are hidden.
fn restores_hidden_writes(program: &str) {
    let job = || Job::new(paths::test_program(program), &["10", "1"]).interval("7calls");
    let faults = format!(
        "blind; {}; {}",
        fault_at_commit(1, 3),
        fault_at_commit(2, 6)
    );
    let outcome = tracked(job(), "landings").spares(2).fault(&faults).run();
    outcome.assert_success();
    outcome.assert_like(&native(job()), &[]);
}

macro_rules! programs {
    ($($test:ident: $program:literal;)*) => {$(
        #[test]
        #[ignore = "a variant: make test-all"]
        fn $test() {
            restores_hidden_writes($program);
        }
    )*};
}

programs! {
    hidden_writes_of_messages: "point_to_point";
    hidden_writes_of_completed_requests: "completion";
    hidden_writes_of_collectives: "collectives";
    hidden_writes_of_persistent_collectives: "persistent";
    hidden_writes_of_partitioned_messages: "partitioned";
    hidden_writes_of_windows: "windows";
    hidden_writes_of_accumulates: "accumulates";
    hidden_writes_of_topologies: "topologies";
    hidden_writes_of_datatypes: "datatypes";
    hidden_writes_of_files: "mpi_files";
}

/// Blocking calls of several threads run with records, and yield between two polls.
#[test]
#[ignore = "a variant: make test-all"]
fn hidden_writes_of_threads() {
    let job = || Job::new(paths::test_program("multiple"), &["60"]);
    let faults = format!("blind; {}", fault_at_commit(1, 3));
    let outcome = tracked(job(), "landings").fault(&faults).run();
    outcome.assert_success();
    outcome.assert_like(&native(job()), &[]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn hidden_writes_of_mpich() {
    let Some(program) = paths::mpich_program("landings") else {
        return;
    };
    let job = || {
        let job = Job::new(&program, &["20", "1"]);
        job.of_mpich().interval("17calls")
    };
    let outcome = tracked(job(), "landings").spares(2).fault(&faults()).run();
    outcome.assert_success();
    outcome.assert_like(&native(job()), &[]);
}

#[test]
#[ignore = "a variant: make test-all"]
fn hidden_writes_of_examples() {
    let faults = format!("blind; {}", fault_at_commit(1, 4));
    for program in [
        programs::short_heat2d(),
        programs::sem(),
        programs::short_cg(),
    ] {
        let job = tracked(program.job(), "landings").interval("7calls");
        program.assert_undisturbed(job.fault(&faults));
    }
}
