//! `understudy completions`: what shells need to complete command lines.

use crate::outcome::{Outcome, print};
use clap_complete::Shell;
use std::process::ExitCode;

/// Print a completion script for a shell.
#[derive(clap::Args)]
#[command(after_help = "For bash: understudy completions bash > ~/.local/share/bash-completion/completions/understudy")]
pub struct Arguments {
    /// The shell.
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
