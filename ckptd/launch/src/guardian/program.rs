//! The program that a guardian runs.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use understudy_wire::line::PRELOAD_VARIABLE;

/// The program as given to the launcher.
#[derive(Debug)]
pub struct Program {
    pub file: PathBuf,
    /// Argument list; the first argument is the name of the program.
    pub arguments: Vec<OsString>,
}

impl Program {
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        if let Some((name, arguments)) = self.arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        command
            .env("LD_PRELOAD", preloaded())
            .env_remove(PRELOAD_VARIABLE);
        command
    }
}

/// Returns the libraries that are preloaded into the program but not into this process.
///
/// An example is a profiler, whose report must not contain this process.
fn preloaded() -> OsString {
    std::env::var_os(PRELOAD_VARIABLE).unwrap_or_default()
}

/// Returns the preloaded libraries without those of understudy, joined by colons.
pub fn preloaded_besides() -> String {
    without_own(&preloaded().into_string().unwrap_or_default())
}

/// True if a path names a library of understudy, whatever the MPI library is.
fn is_own_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let rest = name.strip_prefix("libunderstudy");
    rest.is_some_and(|rest| rest == ".so" || rest.starts_with('_'))
}

/// Returns the libraries in a value of LD_PRELOAD without those of understudy, joined by colons.
fn without_own(preload: &str) -> String {
    let is_other = |item: &&str| !item.is_empty() && !is_own_library(item);
    let others: Vec<&str> = preload.split([':', ' ']).filter(is_other).collect();
    others.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the libraries of the user stay in LD_PRELOAD, whatever the MPI library is.
    #[test]
    fn preload_libraries_of_all_kinds_are_left_out() {
        for own in [
            "libunderstudy.so",
            "/opt/lib/libunderstudy.so",
            "/opt/lib/libunderstudy_mpich.so",
            "/opt/lib/libunderstudy_debian.so",
            "/opt/lib/libunderstudy_standard.so",
        ] {
            let preload = format!("/a/profiler.so:{own} /b/notlibunderstudy.so");
            assert_eq!(
                without_own(&preload),
                "/a/profiler.so:/b/notlibunderstudy.so"
            );
        }
        assert_eq!(without_own(""), "");
    }
}
