//! Open MPI's shared memory, which it leaves behind when a rank is killed.

use super::{Remains, is_own, is_settled};
use crate::relay::LEDGERS;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Segments (`sm_segment.HOST.USER.JOB.RANK`) of jobs none of whose segments any process has mapped.
pub(super) fn abandoned() -> Vec<Remains> {
    let mut jobs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(LEDGERS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((job, _)) = name.strip_prefix("sm_segment.").and_then(|name| name.rsplit_once('.')) {
            jobs.entry(job.to_owned()).or_default().push(entry.path());
        }
    }
    let mapped = mapped();
    let is_abandoned = |files: &Vec<PathBuf>| {
        files
            .iter()
            .all(|path| is_own(path) && is_settled(path) && !mapped.contains(path.as_os_str()))
    };
    let abandoned = jobs.into_values().filter(is_abandoned).flatten();
    abandoned
        .map(|path| Remains {
            path,
            what: "Open MPI's, of a job that is gone",
        })
        .collect()
}

/// Files below /dev/shm that any process has mapped that this user may look at: all of the user's own.
fn mapped() -> BTreeSet<OsString> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let maps = processes.filter_map(|process| std::fs::read_to_string(process.path().join("maps")).ok());
    let path = |line: &str| line.find(LEDGERS).map(|at| OsString::from(&line[at..]));
    maps.flat_map(|maps| maps.lines().filter_map(path).collect::<Vec<_>>())
        .collect()
}

/// Whether a process of this node has a file open.
pub fn is_in_use(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut descriptors = processes.flat_map(|process| {
        std::fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten()
    });
    descriptors.any(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|target| target == path))
}
