//! Commands outside of mpirun, with and without understudy.

use crate::paths;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command; if `is_preloaded`, with understudy preloaded and `variables` set.
///
/// # Panics
/// Panics if the command cannot be started.
pub fn run(
    program: impl AsRef<Path>,
    arguments: &[&str],
    variables: &[(&str, &str)],
    is_preloaded: bool,
) -> Output {
    paths::wait_for_turn();
    let mut command = Command::new(program.as_ref());
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("LD_PRELOAD");
    // Open MPI 5 without mpirun leaves its memory in the directory.
    let memory = tempfile::tempdir().expect("there is room for temporary files");
    command
        .env("OMPI_MCA_btl_sm_backing_directory", memory.path())
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    if is_preloaded {
        command.env("LD_PRELOAD", paths::preload_library());
        command.envs(variables.iter().copied());
    }
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"))
}

/// Fails unless a command has equal output and status with and without understudy.
///
/// # Panics
/// Panics if output or status differ, or the command cannot be started.
#[track_caller]
pub fn assert_indifferent(program: &str, arguments: &[&str], variables: &[(&str, &str)]) {
    let (with, without) = (
        run(program, arguments, variables, true),
        run(program, arguments, variables, false),
    );
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        text(&with.stdout),
        text(&without.stdout),
        "standard output of {program} {arguments:?}"
    );
    assert_eq!(
        text(&with.stderr),
        text(&without.stderr),
        "standard error of {program} {arguments:?}"
    );
    assert_eq!(
        with.status, without.status,
        "status of {program} {arguments:?}"
    );
}
