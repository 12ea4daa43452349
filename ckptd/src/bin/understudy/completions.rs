//! `understudy completions`: scripts with which shells complete command lines.

use crate::outcome::{Outcome, print};
use clap_complete::Shell;
use std::process::ExitCode;

const STATUSES: &str = "Exit status:\n  \
    0  the script was printed\n  \
    2  wrong usage, or a shell that is not known\n  \
    3  standard output cannot be written to\n\n\
    For bash: understudy completions bash > ~/.local/share/bash-completion/completions/understudy";

/// Print a completion script for a shell.
#[derive(clap::Args)]
#[command(after_help = STATUSES)]
pub struct Arguments {
    /// Name of the shell.
    shell: Shell,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::grammar(), "understudy", &mut script);
        print(script)?;
        Ok(ExitCode::SUCCESS)
    }
}
