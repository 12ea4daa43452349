//! Standard output and standard error of the processes of a job.

use crate::Error;
use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

/// Descriptors to which the processes of a job write.
#[derive(Debug)]
pub struct Streams {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

impl Streams {
    /// Returns duplicates of this process's streams.
    ///
    /// # Errors
    /// Errors of dup(2).
    pub fn own() -> Result<Streams, Error> {
        let duplicates = || {
            Ok(Streams {
                stdout: rustix::stdio::stdout().try_clone_to_owned()?,
                stderr: rustix::stdio::stderr().try_clone_to_owned()?,
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

    /// Prints `understudy: MESSAGE` as one line on standard error.
    pub fn print(&self, message: impl Display) {
        let line = format!("understudy: {message}\n");
        // A closed or full standard error does not end the job.
        let _ = rustix::io::write(&self.stderr, line.as_bytes());
    }
}
