//! Files with the standard output of workers, for `understudy run --output FILE`.
//!
//! The directory `FILE.workers` has the output of each worker in a file of its own. Descriptor 1 of
//! the worker is this file, so the rules for the program's files hold: the file gets back its size
//! in a recovery and in a restart, in any process and on any host.
//!
//! ```text
//!   w00003.start   output of worker 3 until its MPI_Init
//!   w00003         its whole output: renamed in MPI_Init by a job that begins; a job that
//!                  continues removes w00003.start, and cuts w00003
//! ```
//!
//! A start that is refused, or fails before the end of MPI_Init, thus leaves earlier output alone.

use std::path::{Path, PathBuf};
use understudy_numbers::Worker;

/// Variable by which `understudy run` names the directory to guardians and ranks.
pub const WORKER_OUTPUT: &str = "UNDERSTUDY_WORKER_OUTPUT";

/// Directory with the output of all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOutput {
    directory: PathBuf,
}

impl WorkerOutput {
    /// Returns the directory that belongs to the file of `--output`.
    pub fn beside(file: &Path) -> WorkerOutput {
        let mut directory = file.as_os_str().to_owned();
        directory.push(".workers");
        WorkerOutput::at(directory.into())
    }

    pub fn at(directory: PathBuf) -> WorkerOutput {
        WorkerOutput { directory }
    }

    /// Returns the directory that `understudy run` has named; `None` if the variable is empty.
    pub fn of_environment() -> Option<WorkerOutput> {
        let directory = std::env::var_os(WORKER_OUTPUT).filter(|it| !it.is_empty())?;
        Some(WorkerOutput::at(directory.into()))
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a worker's output.
    pub fn file(&self, worker: Worker) -> PathBuf {
        self.directory.join(format!("w{:05}", worker.0))
    }

    /// Returns the path of a worker's output until its MPI_Init.
    pub fn start_file(&self, worker: Worker) -> PathBuf {
        self.file(worker).with_extension("start")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_beside_the_output() {
        let output = WorkerOutput::beside(Path::new("/work/out.txt"));
        let paths = [output.file(Worker(3)), output.start_file(Worker(123_456))];
        let expected =
            ["w00003", "w123456.start"].map(|name| Path::new("/work/out.txt.workers").join(name));
        assert_eq!(paths, expected);
    }
}
