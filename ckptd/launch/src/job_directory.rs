//! The directory of a job in memory.

use crate::Error;
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use understudy_formats::private_directories::{self, PrivateDirectory};
use understudy_node::leftovers_of_job;
use understudy_relay::{job_of_directory, name_of_directory};

/// Prefix of the names of jobs that [`crate::starter`] has started.
pub const CKPTD_JOB: &str = "ckptd-";

/// Name of the file that is locked during a search for the manager.
pub const LOCK: &str = "lock";

/// Removes the leftovers of a job on this node, and its directory.
pub fn remove_left(directory: &Path) {
    let name = directory
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    let name = job_of_directory(name);
    // The directory is removed first: a relay that creates its ledger later removes the ledger
    // itself.
    for is_directory in [true, false] {
        let all = leftovers_of_job(name).into_iter();
        for left in all.filter(|left| (left.path() == directory) == is_directory) {
            let _ = left.remove();
        }
    }
}

/// Returns the path of a job's directory in memory.
///
/// `understudy clean` finds the directory by its name.
pub fn directory_of(job: &str) -> PathBuf {
    private_directories::in_memory().join(name_of_directory(job))
}

/// Makes a job's directory, and locks it.
///
/// Only the owner of the lock searches for the manager, and starts one if none is running.
///
/// # Errors
/// Refusals of the directory, and errors of the lock.
pub fn locked(job: &str) -> Result<(PrivateDirectory, File), Error> {
    let refused = |refused: private_directories::DirectoryRefusal| match refused.is_fatal() {
        true => Error::RefusedDirectory(refused),
        false => Error::NoSharedMemory(refused),
    };
    private_directories::make_in_memory().map_err(refused)?;
    let directory = PrivateDirectory::make(&directory_of(job)).map_err(refused)?;
    let lock = lock(&directory)?;
    Ok((directory, lock))
}

/// Makes the directory of a job of [`crate::starter`].
///
/// A guardian that starts after the removal of the directory finds the job over.
///
/// # Errors
/// Errors of [`locked`].
pub fn prepare(job: &str) -> Result<(), Error> {
    locked(job).map(drop)
}

/// Locks a job's directory.
///
/// # Errors
/// Errors of open(2) and flock(2).
pub fn lock(directory: &PrivateDirectory) -> Result<File, Error> {
    let lock = directory.open_own(LOCK.as_ref(), libc::O_RDWR | libc::O_CREAT);
    let lock = lock.map_err(Error::system("the lock of the job's directory"))?;
    flock(&lock, FlockOperation::LockExclusive)
        .map_err(|errno| Error::system("flock")(errno.into()))?;
    Ok(lock)
}
