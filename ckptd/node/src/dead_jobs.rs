//! Files in memory of jobs that have ended: ledgers, undo logs and backups.

use crate::file_use::is_stable;
use crate::leftover::{Leftover, LeftoverNames};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use understudy_formats::host::host_name;
use understudy_formats::private_directories::{PrivateDirectory, in_memory, open_own};
use understudy_relay::{has_launcher, job_of_name, survey};

/// Returns the leftovers in memory of a job of this user.
///
/// All processes of the job must have ended.
pub fn leftovers_of_job(job: &str) -> Vec<Leftover> {
    let Ok(Some(directory)) = PrivateDirectory::open(&in_memory()) else {
        return Vec::new();
    };
    let mut names = directory.names();
    names.retain(|name| job_in(name).as_deref() == Some(job));
    Leftover::all(LeftoverNames {
        directory,
        names,
        kind: "of a job that has ended",
    })
}

/// Returns the job with which a name in memory begins.
///
/// Names of backups begin with a dot, and end with a number behind the rank.
fn job_in(name: &OsStr) -> Option<String> {
    let text = name.to_string_lossy();
    let (job, _) = job_of_name(text.trim_start_matches('.'))?;
    Some(until_number(job).to_owned())
}

/// Returns the files in memory of jobs without processes on this node.
pub fn files_of_dead_jobs() -> Option<LeftoverNames> {
    let directory = PrivateDirectory::open(&in_memory()).ok()??;
    // The files are listed first: a job that starts in between has none of them.
    let mut names = directory.names();
    let living: BTreeSet<String> = survey()
        .into_iter()
        .filter(|entry| {
            entry.is_in_use()
                || (!is_of_this_node(&entry.job) && !is_stable(&entry.path))
                || is_locked(&entry.path)
        })
        .map(|entry| entry.job)
        .collect();
    names.retain(|name| {
        job_in(name).is_some_and(|job| {
            let path = directory.path().join(name);
            !living.contains(&job)
                && !has_launcher(&job)
                && (is_of_this_node(&job) || is_stable(&path))
        })
    });
    Some(LeftoverNames {
        directory,
        names,
        kind: "of a job that is gone",
    })
}

/// Returns true if the launcher ran on this host, according to the job's name.
///
/// The process of a launcher on this host is visible while the job lives. A launcher in a
/// container may have another host name.
fn is_of_this_node(job: &str) -> bool {
    let launcher = job
        .rsplit_once('@')
        .and_then(|(name, _)| name.rsplit_once('-'));
    launcher.is_some_and(|(name_and_host, _)| name_and_host.ends_with(&format!("-{}", host_name())))
}

/// Returns true if a relay has locked its ledger.
///
/// The relay may be in a container, whose processes are not visible here.
fn is_locked(ledger: &Path) -> bool {
    open_own(ledger, libc::O_RDONLY).is_ok_and(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    })
}

/// Returns `prterun-vm-12@1` for `prterun-vm-12@1-3`.
fn until_number(job: &str) -> &str {
    let Some(index) = job.find('@') else {
        return job;
    };
    let digits = job[index + 1..]
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count();
    &job[..index + 1 + digits]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_separated_from_the_suffix() {
        assert_eq!(until_number("prterun-vm-12@1-3"), "prterun-vm-12@1");
        assert_eq!(until_number("prterun-vm-12@1"), "prterun-vm-12@1");
    }
}
