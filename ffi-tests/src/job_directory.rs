//! Directory of a job: its working directory, events, output and error output.

use std::path::{Path, PathBuf};

/// Directory of a job, which may belong to the job's outcome.
pub(crate) enum JobDirectory {
    Own(tempfile::TempDir),
    /// Belongs to the run of the tests.
    Shared(PathBuf),
}

impl JobDirectory {
    pub(crate) fn path(&self) -> &Path {
        match self {
            JobDirectory::Own(directory) => directory.path(),
            JobDirectory::Shared(path) => path,
        }
    }
}
