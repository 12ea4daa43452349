//! A worker fails after another process has filled `/dev/shm` while the job runs.

use ffi_tests::{Requirement, paths, skip};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Exit status of a job that cannot be recovered.
const LOST: i32 = 75;

/// Runs the program `fills` in a mount namespace with a small `/dev/shm`; worker 1 fails.
///
/// The shell runs `prepare` before the job. Returns `None`, and prints the reason, without the
/// right to mount.
fn run(prepare: &str) -> Option<Output> {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        skip(Requirement::Namespaces, "mounts need root");
        return None;
    }
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let script = format!(
        "mount -t tmpfs -o size=64m tmpfs /dev/shm; export OMPI_MCA_btl=self,sm; {prepare}; \
         exec timeout 60 {} run -n 3 --spares 1 --interval 5calls --no-daemon --progress none \
         --fault 'kill rank=1 at=call:40' -- {} 20 10 /dev/shm",
        paths::product("understudy").display(),
        paths::test_program("fills").display()
    );
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", &script]);
    shell.env("TMPDIR", work.path()).current_dir(work.path());
    let roots = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    shell.envs(roots.map(|name| (name, "1")));
    let output = shell.output().expect("there is a shell");
    let left = std::fs::read_dir(work.path()).expect("the directory exists");
    let directories = left.flatten().filter(|it| it.path().is_dir());
    assert_eq!(directories.count(), 0, "directories are left behind");
    Some(output)
}

#[test]
fn open_mpi_initialises_in_another_directory() {
    paths::wait_for_turn();
    let Some(output) = run("true") else { return };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("/dev/shm has 0 MiB left"), "{errors}");
    assert!(
        errors.contains("worker 1 failed; replaced by rank 3"),
        "{errors}"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let rounds = text.lines().filter(|line| line.starts_with("round "));
    // Three ranks print the round in the transcripts of the first and the last round.
    assert_eq!(rounds.count(), 20 + 2 * 3, "{text}");
}

#[test]
fn a_library_that_can_begin_nowhere_else_ends_the_job_soon_with_the_cause() {
    paths::wait_for_turn();
    let began = Instant::now();
    let Some(output) = run("touch $TMPDIR/understudy-$(id -u)") else {
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(LOST), "{errors}");
    let words = "the MPI library has aborted twice, and /dev/shm has 0 MiB left";
    assert!(errors.contains(words), "{errors}");
    assert!(began.elapsed() < Duration::from_secs(40), "{errors}");
}
