//! Directory of a disk level, and this job's files in it.

use super::load::{LoadedCheckpoint, load};
use super::static_file;
use crate::{process_info, system_calls};
use understudy_formats::epochs::epoch_files::{self, EpochFileName, EpochKey};
use understudy_formats::epochs::epoch_format::{EpochError, JobIdentity};

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use understudy_formats::epochs::owner::{self, ClaimError, DirectoryOwner, OWNER, Ownership};
use understudy_formats::private_directories::is_own;
use understudy_image::store::PageStore;
use understudy_numbers::Worker;
use understudy_settings::{Config, Restart};

/// Directory for the files of the workers.
pub struct CheckpointDirectory {
    pub directory: PathBuf,
    /// Ownership that excludes other jobs from the directory on disk.
    ownership: Option<Ownership>,
}

/// Returns the names of this user's files.
///
/// Other users could plant files in a shared directory, so theirs are ignored.
fn listing(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.metadata().is_ok_and(|about| is_own(&about)))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

/// Decides whether a job with `UNDERSTUDY_RESTART=auto` is restarted.
///
/// The job is restarted if the directory has a file of each worker of some checkpoint. All
/// processes decide equally if the directory is shared, since no process writes a checkpoint before
/// all processes have started.
pub fn decide_restart(config: &mut Config, workers: u32) {
    if config.restart == Restart::Auto
        && let Some(directory) = &config.disk
        && epoch_files::has_complete_epoch(listing(directory).iter().map(String::as_str), workers)
    {
        config.restart = Restart::Always;
    }
}

impl CheckpointDirectory {
    /// Returns the directory, after missing directories have been created.
    ///
    /// An error is reported when the first checkpoint cannot be written.
    pub fn open(directory: &Path) -> CheckpointDirectory {
        let _ = fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(directory);
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        CheckpointDirectory {
            directory,
            ownership: None,
        }
    }

    /// Claims the directory on disk for this process's job.
    ///
    /// A directory that cannot be written has no owner; the error is reported at the first write.
    ///
    /// # Errors
    /// Fails if the job must not start: another job owns the directory, or the owner's file exists
    /// and cannot be used.
    pub fn claim(&mut self) -> Result<(), String> {
        let own = DirectoryOwner::current(&process_info::job_of_launcher(), process_info::variable);
        match owner::claim(&self.directory, &own, |file| {
            system_calls::move_owned_descriptor(file).into()
        }) {
            Ok(ownership) => self.ownership = Some(ownership),
            Err(ClaimError::System(_)) if !self.directory.join(OWNER).exists() => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Releases the directory for other jobs.
    pub fn release(&mut self) {
        if let Some(ownership) = self.ownership.take() {
            ownership.remove();
        }
    }

    /// Returns the checkpoints of which this worker has a file, the oldest first.
    pub fn keys(&self, worker: Worker) -> Vec<EpochKey> {
        let names = listing(&self.directory);
        epoch_files::epochs_of_worker(names.iter().map(String::as_str), worker)
    }

    pub fn load(
        &self,
        name: EpochFileName,
        own: &JobIdentity,
        store: &mut PageStore,
    ) -> Result<LoadedCheckpoint, EpochError> {
        load(&self.directory, name, own, store)
    }

    /// Removes files of a worker.
    pub fn remove(&self, worker: Worker, keys: &[EpochKey]) {
        for &key in keys {
            let name = EpochFileName { key, worker }.to_string();
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Removes incomplete files of a worker.
    pub fn remove_torn(&self, worker: Worker) {
        let names = listing(&self.directory);
        for torn in epoch_files::incomplete_files(names.iter().map(String::as_str), worker) {
            let _ = fs::remove_file(self.directory.join(torn));
        }
    }

    /// Removes checkpoints and static data of all workers of a job, including incomplete files.
    pub fn remove_job(&self, lineage: u64) {
        let names = listing(&self.directory);
        for name in epoch_files::files_of_job(names.iter().map(String::as_str), lineage) {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Removes all files of earlier runs, including undo logs.
    ///
    /// No job continues from these files.
    pub fn remove_earlier_runs(&self, lineages: impl IntoIterator<Item = u64>) {
        let lineages: BTreeSet<u64> = lineages.into_iter().collect();
        let prefixes: Vec<String> = lineages
            .into_iter()
            .map(epoch_files::prefix_of_job)
            .collect();
        for name in listing(&self.directory) {
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                let _ = fs::remove_file(self.directory.join(name));
            }
        }
    }

    /// Removes static data of a worker.
    pub fn remove_static(&self, worker: Worker) {
        for name in static_file::of_worker(&listing(&self.directory), worker) {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }
}

/// Returns the reason for which a file cannot be written, and a remedy.
pub fn explain(error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there",
        ErrorKind::PermissionDenied => "give this user the right to write there",
        ErrorKind::ReadOnlyFilesystem => {
            "mount it writable, or name another directory in UNDERSTUDY_DISK"
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => "make this directory",
        _ => "look at this file system",
    };
    format!("{error}; {remedy}")
}
