//! Choice and check of Open MPI's launcher.

use super::failures::cannot;
use crate::mpi;
use crate::outcome::Failure;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Splits the value of `--mpirun` into words, as a shell would.
pub fn words(command: &str) -> Result<Vec<OsString>, Failure> {
    let words = shell_words::split(command)
        .map_err(|error| cannot(format!("--mpirun: {error} in `{command}`")))?;
    if words.is_empty() {
        return Err(cannot(
            "--mpirun: name a launcher, and options for it if need be",
        ));
    }
    Ok(words.into_iter().map(OsString::from).collect())
}

/// Joins words into a line for a shell.
pub fn quoted(words: &[OsString]) -> String {
    let words = words.iter().map(|word| word.to_string_lossy());
    words
        .map(|word| shell_words::quote(&word).into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the path of a launcher.
pub fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    mpi::launcher(name).ok_or_else(|| {
        cannot(format!(
            "there is no {} on the PATH. Put the directory of Open MPI's programs there, name it \
             with --mpirun, or do without it (--launcher ckptd).",
            name.display()
        ))
    })
}

/// Checks that the launcher belongs to a supported version of Open MPI.
pub fn check(launcher: &Path) -> Result<(), Failure> {
    let shown = launcher.display();
    let found = mpi::Installation::query(launcher)
        .map_err(|error| cannot(format!("{shown} cannot be executed: {error}")))?;
    if let Some(problem) = found.problem() {
        return Err(cannot(format!(
            "{shown} cannot start a protected job: {problem}"
        )));
    }
    Ok(())
}

/// Refuses to run as root without the permissions that Open MPI requires.
///
/// Open MPI serves root only with `--allow-run-as-root`, or if both environment variables are set.
pub fn check_user(line: &[OsString]) -> Result<(), Failure> {
    let is_permitted = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"]
        .iter()
        .all(|name| std::env::var_os(name).is_some());
    if rustix::process::geteuid().is_root()
        && !is_permitted
        && !line.iter().any(|word| word == "--allow-run-as-root")
    {
        return Err(cannot(
            "mpirun starts nothing for root. Use another account, or set OMPI_ALLOW_RUN_AS_ROOT=1 \
             and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 if root is meant.",
        ));
    }
    Ok(())
}
