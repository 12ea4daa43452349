//! `understudy trace`: where a program calls MPI, and where its initialisation phase ends.

use crate::layer;
use crate::outcome::{Failure, IMPOSSIBLE, Outcome};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const STATUSES: &str = "Exit status:\n  \
    that of the launcher; else\n  \
    2  wrong usage\n  \
    3  the launcher cannot be started, or the library is missing\n\n\
    Example: understudy trace -- mpirun -n 4 ./solver input.txt";

/// Tell where a program calls MPI, and what UNDERSTUDY_INIT_END should be for it.
///
/// Runs the given command, which is one of mpirun and a program, without protection; all ranks are the program's. At the
/// end one report is printed on standard error: for each place of the program that calls MPI how often it did so, and how
/// much MPI has written there, in the initialisation phase and after it.
#[derive(clap::Args)]
#[command(after_help = STATUSES)]
pub struct Arguments {
    /// The library that is preloaded, if it is not beside this program.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// mpirun with its options, the program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let cannot = |why: String| Failure::with_status(IMPOSSIBLE, why);
        let library = layer::library(self.library.as_deref()).map_err(cannot)?;
        let library = layer::preloadable(&library).map_err(cannot)?;
        let line = traced(&self.command, &library)
            .ok_or_else(|| cannot("name mpirun first, then the program".into()))?;
        // Its status is this command's.
        let error = Command::new(&line[0]).args(&line[1..]).exec();
        Err(cannot(format!("{}: {error}", line[0].display())))
    }
}

/// The command with what lets its ranks be traced.
fn traced(command: &[OsString], library: &Path) -> Option<Vec<OsString>> {
    let (launcher, rest) = command.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let mut line = vec![launcher.clone()];
    let mut preload = OsString::from("LD_PRELOAD=");
    preload.push(library);
    for assignment in [preload, "UNDERSTUDY_TRACE=1".into()] {
        line.extend(["-x".into(), assignment]);
    }
    line.extend_from_slice(rest);
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_launcher_gets_what_is_needed() {
        let library = Path::new("/lib/l.so");
        let with = |line: &str| traced(&words(line), library);
        let needed = "-x LD_PRELOAD=/lib/l.so -x UNDERSTUDY_TRACE=1";
        assert_eq!(
            with("mpirun -n 4 prog a"),
            Some(words(&format!("mpirun {needed} -n 4 prog a")))
        );
        assert_eq!(with("mpirun"), None);
    }
}
