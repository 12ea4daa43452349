//! What killed jobs leave on a node: ledgers and undo logs in memory, Open MPI's segments, directories for event files. Nothing of a
//! living job is among it, and nothing of another user.

mod segments;

use crate::epochs::flush;
use crate::relay::{LEDGERS, has_launcher, job_of_name, lives, survey};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
pub use segments::is_in_use;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// See [`is_settled`].
const SETTLED: Duration = Duration::from_secs(60);

/// What the names of directories for event files begin with; the process id of `understudy run` follows.
pub const EVENTS_PREFIX: &str = "understudy-run-";

/// Something to be removed, and what it is.
#[derive(Debug)]
pub struct Remains {
    /// Where it is.
    pub path: PathBuf,
    /// For people.
    pub what: &'static str,
}

/// All of it.
pub fn of_node() -> Vec<Remains> {
    let mut all = of_jobs();
    all.extend(segments::abandoned());
    all.extend(event_directories());
    all.extend(flush::orphans().into_iter().map(|path| Remains {
        path,
        what: "epochs held for a directory that is gone",
    }));
    all
}

/// Whether something belongs to this user.
pub fn is_own(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
}

/// Ledgers, undo logs and backups in memory of jobs of which no process is left on this node.
fn of_jobs() -> Vec<Remains> {
    // The files first: a job that starts in between has none of them.
    let files = std::fs::read_dir(LEDGERS).into_iter().flatten().flatten();
    let files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    let living: BTreeSet<String> = survey(Path::new(LEDGERS))
        .into_iter()
        .filter(|seat| {
            seat.is_taken() || (!is_of_this_node(&seat.job) && !is_settled(&seat.path)) || is_locked(&seat.path)
        })
        .map(|seat| seat.job)
        .collect();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A backup has a dot in front, and a number behind that of the rank.
        let job = job_of_name(name.trim_start_matches('.')).map(|(job, _)| until_number(job));
        is_own(path)
            && job.is_some_and(|job| {
                !living.contains(job) && !has_launcher(job) && (is_of_this_node(job) || is_settled(path))
            })
    };
    files
        .into_iter()
        .filter(is_left)
        .map(|path| Remains {
            path,
            what: "of a job that is gone",
        })
        .collect()
}

/// Whether the launcher is on this node, so that its process tells whether the job lives. That of a container may have another name.
fn is_of_this_node(job: &str) -> bool {
    let launcher = job.rsplit_once('@').and_then(|(name, _)| name.rsplit_once('-'));
    let name = rustix::system::uname();
    launcher
        .is_some_and(|(name_and_host, _)| name_and_host.ends_with(&format!("-{}", name.nodename().to_string_lossy())))
}

/// Whether nobody has changed a file for a while: a job that starts is not known by anything else for a moment.
fn is_settled(path: &Path) -> bool {
    let changed = path.symlink_metadata().and_then(|metadata| metadata.modified());
    let age = changed.map(|changed| SystemTime::now().duration_since(changed));
    matches!(age, Ok(Ok(age)) if age >= SETTLED)
}

/// Whether a relay keeps its ledger locked, be it in a container whose processes are not seen from here.
fn is_locked(ledger: &Path) -> bool {
    let Ok(file) = std::fs::File::open(ledger) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// `prterun-vm-12@1` of `prterun-vm-12@1-3`.
fn until_number(job: &str) -> &str {
    let Some(at) = job.find('@') else { return job };
    let digits = job[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
    &job[..at + 1 + digits]
}

/// Directories of `understudy run`, which have its process id in their names, and in which nobody has a file open: the job may
/// live on when it is killed.
fn event_directories() -> Vec<Remains> {
    let names = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix(EVENTS_PREFIX)
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        let files = || std::fs::read_dir(path).into_iter().flatten().flatten();
        is_own(path) && pid.is_some_and(|pid| !lives(pid)) && !files().any(|file| segments::is_in_use(&file.path()))
    };
    names
        .map(|entry| entry.path())
        .filter(is_left)
        .map(|path| Remains {
            path,
            what: "event files of a job that is gone",
        })
        .collect()
}

/// Removes a file or directory. Somebody else may have done it meanwhile.
pub fn remove(path: &Path) -> io::Result<()> {
    let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_directory {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_told_from_what_follows_it() {
        assert_eq!(until_number("prterun-vm-12@1-3"), "prterun-vm-12@1");
        assert_eq!(until_number("prterun-vm-12@1"), "prterun-vm-12@1");
    }
}
