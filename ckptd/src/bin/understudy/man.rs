//! `understudy man`: man pages of all commands, as `make man` installs them.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome};
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const STATUSES: &str = "Exit status:\n  \
    0  the pages were written\n  \
    2  wrong usage\n  \
    3  they cannot be written; a message says why";

/// Write the man pages.
#[derive(clap::Args)]
#[command(after_help = STATUSES)]
pub struct Arguments {
    /// Where to; the directory is made.
    dir: PathBuf,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let dir = &self.dir;
        let mut grammar = crate::grammar().disable_help_subcommand(true);
        grammar.build();
        let written = std::fs::create_dir_all(dir).and_then(|()| write(&grammar, dir));
        written.map_err(|error| {
            Failure::with_status(
                IMPOSSIBLE,
                format_args!("{}: {error}. Choose a directory that can be written to.", dir.display()),
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A command's page, and those of its commands.
fn write(command: &clap::Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        write(below, dir)?;
    }
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    // What stands behind the help text begins with the statuses.
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA\nExit status:\n", ".SH \"EXIT STATUS\"\n");
    std::fs::write(dir.join(man.get_filename()), page)
}
