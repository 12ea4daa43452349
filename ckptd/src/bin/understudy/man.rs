//! `understudy man`: man pages of all commands, as `make man` installs them.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome};
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the man pages.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where to; the directory is made.
    dir: PathBuf,
}

impl Arguments {
    pub fn run(self) -> Outcome {
        let dir = &self.dir;
        let write = || {
            std::fs::create_dir_all(dir)?;
            clap_mangen::generate_to(crate::grammar(), dir)
        };
        write().map_err(|error: std::io::Error| {
            Failure::with_status(
                IMPOSSIBLE,
                format_args!("{}: {error}. Choose a directory that can be written to.", dir.display()),
            )
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
