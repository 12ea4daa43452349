//! Outcomes that are stored in a directory, for other processes of the run.

use crate::job_directory::JobDirectory;
use crate::outcome::Outcome;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// Name of a stored job's directory.
const JOB: &str = "job";
/// Name of the file with a stored job's command line.
const COMMAND_LINE: &str = "command-line";
/// Name of the file with the duration of a stored job in nanoseconds.
const DURATION: &str = "duration";

impl Outcome {
    /// Moves the result of a successful job into a directory, for [`Outcome::load`].
    ///
    /// # Panics
    /// Panics if the directory is on another file system or cannot be written.
    pub(crate) fn store(mut self, directory: &Path) {
        let write = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).expect("the directory is writable");
        };
        write(COMMAND_LINE, &self.line);
        write(DURATION, &self.wall.as_nanos().to_string());
        if let Some(JobDirectory::Own(own)) = self.root.take() {
            std::fs::rename(own.keep(), directory.join(JOB)).expect("one file system");
        }
    }

    /// Returns the result that was stored in a directory.
    ///
    /// # Panics
    /// Panics if the directory contains no result.
    pub(crate) fn load(directory: &Path) -> Outcome {
        let read = |name| std::fs::read_to_string(directory.join(name)).expect("a stored result");
        let wall = Duration::from_nanos(read(DURATION).parse().expect("a number"));
        Outcome::new(
            JobDirectory::Shared(directory.join(JOB)),
            read(COMMAND_LINE),
            Some(ExitStatus::from_raw(0)),
            wall,
            Vec::new(),
            Vec::new(),
        )
    }
}
