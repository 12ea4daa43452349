//! Standard output and standard error of the processes of a job.

use crate::Error;
use std::fs::File;
use std::io;
use std::process::Stdio;

/// Descriptors to which the processes of a job write.
#[derive(Debug)]
pub struct Streams {
    pub stdout: File,
    pub stderr: File,
}

impl Streams {
    /// Returns duplicates of this process's streams.
    ///
    /// # Errors
    /// Errors of dup(2).
    pub fn own() -> Result<Streams, Error> {
        let duplicates = || {
            Ok(Streams {
                stdout: rustix::stdio::stdout().try_clone_to_owned()?.into(),
                stderr: rustix::stdio::stderr().try_clone_to_owned()?.into(),
            })
        };
        duplicates().map_err(Error::system("standard output"))
    }

    /// Returns standard output and standard error for a command.
    ///
    /// # Errors
    /// Errors of dup(2).
    pub fn for_command(&self) -> io::Result<[Stdio; 2]> {
        Ok([
            self.stdout.try_clone()?.into(),
            self.stderr.try_clone()?.into(),
        ])
    }
}
