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
    let preload = preloaded().into_string().unwrap_or_default();
    let is_other = |item: &&str| !item.is_empty() && !item.ends_with("libunderstudy.so");
    let others: Vec<&str> = preload.split([':', ' ']).filter(is_other).collect();
    others.join(":")
}
