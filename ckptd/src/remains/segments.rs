//! Open MPI's shared memory, which it leaves behind when a rank is killed.

use super::{Found, is_own, is_settled};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use understudy_formats::private::{Directory, MEMORY};

/// Segments (`sm_segment.HOST.USER.JOB.RANK`) of jobs none of whose segments any process has mapped.
pub(super) fn abandoned() -> Option<Found> {
    let directory = Directory::of_anybody(Path::new(MEMORY)).ok()?;
    let mut jobs: BTreeMap<String, Vec<OsString>> = BTreeMap::new();
    for name in directory.names() {
        let text = name.to_string_lossy();
        if let Some((job, _)) = text
            .strip_prefix("sm_segment.")
            .and_then(|name| name.rsplit_once('.'))
        {
            jobs.entry(job.to_owned()).or_default().push(name.clone());
        }
    }
    let mapped = mapped();
    let is_abandoned = |names: &Vec<OsString>| {
        let mut paths = names.iter().map(|name| directory.path().join(name));
        paths.all(|path| is_own(&path) && is_settled(&path) && !mapped.contains(path.as_os_str()))
    };
    let abandoned = jobs.into_values().filter(is_abandoned).flatten().collect();
    Some((directory, abandoned, "Open MPI's, of a job that is gone"))
}

/// Files below /dev/shm that any process has mapped that this user may look at: all of the user's own.
fn mapped() -> BTreeSet<OsString> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let maps =
        processes.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok());
    let path = |line: &str| line.find(MEMORY).map(|at| OsString::from(&line[at..]));
    maps.flat_map(|maps| maps.lines().filter_map(path).collect::<Vec<_>>())
        .collect()
}

/// Whether a process of this node has a file open.
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
