//! Owners, ages and users of files.

use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use understudy_formats::private_directories::SHARED_MEMORY_DIRECTORY;

/// Age from which an unchanged file belongs to no job that is starting.
const STABLE_AGE: Duration = Duration::from_secs(60);

/// Returns true if a file belongs to this user.
pub fn is_own(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
}

/// Returns true if a file has not changed for a while.
///
/// A recent file may be the only trace of a job that has just been started.
pub fn is_stable(path: &Path) -> bool {
    let changed = path
        .symlink_metadata()
        .and_then(|metadata| metadata.modified());
    let age = changed.map(|changed| SystemTime::now().duration_since(changed));
    matches!(age, Ok(Ok(age)) if age >= STABLE_AGE)
}

/// Returns the files below /dev/shm that are mapped by processes of this user.
///
/// Mappings of other processes are included as far as this user may read them.
pub fn mapped_files() -> BTreeSet<OsString> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let maps =
        processes.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok());
    let path = |line: &str| {
        line.find(SHARED_MEMORY_DIRECTORY)
            .map(|at| OsString::from(&line[at..]))
    };
    maps.flat_map(|maps| maps.lines().filter_map(path).collect::<Vec<_>>())
        .collect()
}

/// Returns true if a process of this node has a file open.
///
/// Only processes whose descriptors this user may read are examined.
pub fn is_in_use(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut descriptors = processes.flat_map(|process| {
        std::fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
    });
    descriptors
        .any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|target| target == path))
}
