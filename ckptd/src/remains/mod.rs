//! What killed jobs leave on a node: ledgers and undo logs in memory, Open MPI's segments, directories for event files. Nothing of a
//! living job is among it, and nothing of another user.

mod segments;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
pub use segments::is_in_use;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use understudy_formats::private::{Directory, in_memory, open_own};
use understudy_relay::{has_launcher, job_of_name, lives, survey};

const SETTLED: Duration = Duration::from_secs(60);

/// What the names of directories for event files begin with; the process id of `understudy run` follows.
pub const EVENTS_PREFIX: &str = "understudy-run-";

/// Something to be removed, and what it is.
#[derive(Debug)]
pub struct Remains {
    directory: Arc<Directory>,
    name: OsString,
    pub what: &'static str,
}

impl Remains {
    /// Things of one kind in the directory in which they were found.
    pub fn all(directory: Directory, names: Vec<OsString>, what: &'static str) -> Vec<Remains> {
        let directory = Arc::new(directory);
        let remains = |name| Remains {
            directory: Arc::clone(&directory),
            name,
            what,
        };
        names.into_iter().map(remains).collect()
    }

    /// Where it was found.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join(&self.name)
    }

    /// Removes it from the directory in which it was found, whatever leads there now. Somebody else may have done it meanwhile.
    ///
    /// # Errors
    /// Those of [`Directory::remove_all`].
    pub fn remove(&self) -> io::Result<()> {
        self.directory.remove_all(&self.name)
    }
}

pub fn of_node() -> Vec<Remains> {
    let kinds = [of_jobs(), segments::abandoned(), event_directories()];
    let found = kinds.into_iter().flatten();
    found
        .flat_map(|(directory, names, what)| Remains::all(directory, names, what))
        .collect()
}

/// What this user's job of this name has left in memory, now that all of its processes have ended.
pub fn of_job(job: &str) -> Vec<Remains> {
    let Ok(Some(directory)) = Directory::open(&in_memory()) else {
        return Vec::new();
    };
    let mut names = directory.names();
    names.retain(|name| job_in(name).as_deref() == Some(job));
    Remains::all(directory, names, "of a job that has ended")
}

/// The job that a name in memory begins with. That of a backup has a dot in front, and a number behind that of the rank.
fn job_in(name: &OsStr) -> Option<String> {
    let text = name.to_string_lossy();
    let (job, _) = job_of_name(text.trim_start_matches('.'))?;
    Some(until_number(job).to_owned())
}

/// A directory, names in it, and what they are.
type Found = (Directory, Vec<OsString>, &'static str);

/// Whether something belongs to this user.
pub fn is_own(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|metadata| metadata.uid() == geteuid().as_raw())
}

/// Ledgers, undo logs and backups in memory of jobs of which no process is left on this node.
fn of_jobs() -> Option<Found> {
    let directory = Directory::open(&in_memory()).ok()??;
    // The files first: a job that starts in between has none of them.
    let mut names = directory.names();
    let living: BTreeSet<String> = survey()
        .into_iter()
        .filter(|seat| {
            seat.is_taken()
                || (!is_of_this_node(&seat.job) && !is_settled(&seat.path))
                || is_locked(&seat.path)
        })
        .map(|seat| seat.job)
        .collect();
    names.retain(|name| {
        job_in(name).is_some_and(|job| {
            let path = directory.path().join(name);
            !living.contains(&job)
                && !has_launcher(&job)
                && (is_of_this_node(&job) || is_settled(&path))
        })
    });
    Some((directory, names, "of a job that is gone"))
}

/// Whether the launcher is on this node, so that its process tells whether the job lives. That of a container may have another name.
fn is_of_this_node(job: &str) -> bool {
    let launcher = job
        .rsplit_once('@')
        .and_then(|(name, _)| name.rsplit_once('-'));
    let name = rustix::system::uname();
    launcher.is_some_and(|(name_and_host, _)| {
        name_and_host.ends_with(&format!("-{}", name.nodename().to_string_lossy()))
    })
}

/// Whether nobody has changed a file for a while: a job that starts is not known by anything else for a moment.
fn is_settled(path: &Path) -> bool {
    let changed = path
        .symlink_metadata()
        .and_then(|metadata| metadata.modified());
    let age = changed.map(|changed| SystemTime::now().duration_since(changed));
    matches!(age, Ok(Ok(age)) if age >= SETTLED)
}

/// Whether a relay keeps its ledger locked, be it in a container whose processes are not seen from here.
fn is_locked(ledger: &Path) -> bool {
    open_own(ledger, libc::O_RDONLY).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    })
}

/// `prterun-vm-12@1` of `prterun-vm-12@1-3`.
fn until_number(job: &str) -> &str {
    let Some(at) = job.find('@') else { return job };
    let digits = job[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
    &job[..at + 1 + digits]
}

/// Directories of `understudy run`, which have its process id in their names, and in which nobody has a file open: the job may
/// live on when it is killed.
fn event_directories() -> Option<Found> {
    let directory = Directory::of_anybody(&std::env::temp_dir()).ok()?;
    let mut names = directory.names();
    names.retain(|name| {
        let pid = name.to_str().and_then(|name| {
            name.strip_prefix(EVENTS_PREFIX)?
                .split('-')
                .next()?
                .parse::<u32>()
                .ok()
        });
        let path = directory.path().join(name);
        let files = || std::fs::read_dir(&path).into_iter().flatten().flatten();
        is_own(&path)
            && pid.is_some_and(|pid| !lives(pid))
            && !files().any(|file| segments::is_in_use(&file.path()))
    });
    Some((directory, names, "event files of a job that is gone"))
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
