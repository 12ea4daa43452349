//! Executable, environment and streams of the processes that a starter starts on its node.

use crate::Error;
use crate::job_environment::Environment;
use crate::streams::Streams;
use std::path::{Path, PathBuf};

/// Executable, environment and streams of guardians and managers.
#[derive(Clone, Copy)]
pub struct ProcessContext<'a> {
    /// The executable `ckptd`.
    pub ckptd: &'a Path,
    /// Variables that are added to those of the starting process.
    pub environment: &'a Environment,
    pub streams: &'a Streams,
}

/// Returns the file of this program.
///
/// # Errors
/// Errors of readlink(2).
pub fn own_program() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(Error::system("this program's file"))
}
