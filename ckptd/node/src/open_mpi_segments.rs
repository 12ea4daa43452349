//! Shared memory of Open MPI, which a killed rank leaves behind.

use crate::file_use::{is_own, is_stable, mapped_files};
use crate::leftover::LeftoverNames;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use understudy_formats::private_directories::{PrivateDirectory, SHARED_MEMORY_DIRECTORY};

/// Returns the segments of jobs of which no segment is mapped.
///
/// All segments of such a job belong to this user and have not changed for a while. Segments are
/// named `sm_segment.HOST.USER.JOB.RANK`.
pub fn abandoned_segments() -> Option<LeftoverNames> {
    let directory = PrivateDirectory::open_any(Path::new(SHARED_MEMORY_DIRECTORY)).ok()?;
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
    let mapped = mapped_files();
    let is_abandoned = |names: &Vec<OsString>| {
        let mut paths = names.iter().map(|name| directory.path().join(name));
        paths.all(|path| is_own(&path) && is_stable(&path) && !mapped.contains(path.as_os_str()))
    };
    let abandoned = jobs.into_values().filter(is_abandoned).flatten().collect();
    Some(LeftoverNames {
        directory,
        names: abandoned,
        kind: "Open MPI's, of a job that is gone",
    })
}
