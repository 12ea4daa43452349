//! `understudy man`: man pages of all commands, as `make man` installs them.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome};
use ckptd::manual;
use std::path::PathBuf;
use std::process::ExitCode;

const STATUSES: &str = "Exit status:\n  \
    0  the pages were written\n  \
    2  wrong usage\n  \
    3  they cannot be written; a message says why";

/// Write the man pages.
#[derive(clap::Args)]
#[command(after_help = STATUSES)]
pub struct Arguments {
    /// Target directory; created if missing.
    dir: PathBuf,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let dir = &self.dir;
        manual::write(crate::grammar(), dir).map_err(|error| {
            Failure::with_status(
                IMPOSSIBLE,
                format_args!(
                    "no man pages can be written to {}: {error}. Choose another directory.",
                    dir.display()
                ),
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
