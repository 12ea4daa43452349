//! Directory of a disk level, and this job's files in it.

use super::load::{LoadedCheckpoint, load};
use super::static_file;
use crate::{process_info, system_calls};
use understudy_catalogue::message;
use understudy_formats::epochs::claim::{Claim, ClaimError, Ownership, has_owner_file, owner_of};
use understudy_formats::epochs::epoch_files::{self, EpochFileName, EpochKey};
use understudy_formats::epochs::epoch_format::{EpochError, JobIdentity};

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use understudy_formats::epochs::owner::DirectoryOwner;
use understudy_formats::private_directories::is_own;
use understudy_image::store::PageStore;
use understudy_numbers::Worker;
use understudy_settings::{Config, Restart};

/// Directory for the files of the workers.
pub struct CheckpointDirectory {
    pub directory: PathBuf,
    /// Ownership that excludes other jobs from the directory on disk.
    ///
    /// `None` if the directory could not be read or written so far.
    pub ownership: Option<Ownership>,
    /// True if another job has taken over the directory.
    pub is_lost: bool,
}

/// Returns the names of this user's files that are wanted.
///
/// Other users could plant files in a shared directory, so theirs are ignored. Names are compared
/// before stat(2) is called: the directory may have files of many workers.
fn listing(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok();
        Some((name.filter(|name| is_wanted(name))?, entry))
    });
    named
        .filter(|(_, entry)| entry.metadata().is_ok_and(|about| is_own(&about)))
        .map(|(name, _)| name)
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
        && epoch_files::has_complete_epoch(
            listing(directory, |name| EpochFileName::parse(name).is_some())
                .iter()
                .map(String::as_str),
            workers,
        )
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
            is_lost: false,
        }
    }

    /// Claims the directory on disk for this process's job, which has this nonce.
    ///
    /// `job_term` is the term of the job if it is known. `patience` is the time for which an owner
    /// that may run is watched.
    ///
    /// # Errors
    /// Fails if another job owns the directory, and if a file cannot be read or written.
    pub fn claim(
        &mut self,
        nonce: u64,
        job_term: Option<u64>,
        patience: Duration,
    ) -> Result<(), ClaimError> {
        let job = process_info::job_of_launcher();
        let claim = Claim {
            directory: &self.directory,
            own: DirectoryOwner::current(&job, nonce, process_info::variable),
            job_term,
            patience,
            announce: |owner, patience| {
                let place = process_info::config().disk.clone().unwrap_or_default();
                let (place, seconds) = (place.display(), patience.as_secs());
                system_calls::print_message(message::directory_watched(owner, place, seconds));
            },
            lift: |file| system_calls::move_owned_descriptor(file).into(),
        };
        self.ownership = Some(claim.claim()?);
        Ok(())
    }

    /// Returns the reason for which the job must not start after a claim has failed.
    ///
    /// `None` if the directory has no owner: the error is reported when a checkpoint is due.
    pub fn refusal(&self, error: &ClaimError) -> Option<String> {
        let is_without_owner =
            matches!(error, ClaimError::System(_)) && !has_owner_file(&self.directory);
        (!is_without_owner).then(|| error.to_string())
    }

    /// True if this job may change files of the directory.
    ///
    /// False if another job has taken over the directory, or if the file system does not answer.
    pub fn may_change(&mut self) -> bool {
        let Some(ownership) = &self.ownership else {
            return false;
        };
        let is_in_place = ownership.file().is_in_place();
        self.is_lost |= is_in_place.as_ref().is_ok_and(|is_in_place| !is_in_place);
        is_in_place.is_ok() && !self.is_lost
    }

    /// Returns the message about the job that has taken over the directory.
    pub fn loss(&self) -> String {
        let place = self.directory.display();
        let owner = owner_of(&self.directory).unwrap_or_default();
        message::directory_lost(owner, place).to_string()
    }

    /// True if a restart may use a checkpoint.
    ///
    /// False if a slow former owner has completed it late.
    pub fn permits(&self, key: EpochKey) -> bool {
        let ownership = self.ownership.as_ref();
        ownership.is_none_or(|ownership| ownership.owner().permits(key))
    }

    /// Releases the directory for other jobs.
    pub fn release(&mut self) {
        if let Some(ownership) = self.ownership.take() {
            ownership.remove();
        }
    }

    /// Returns the checkpoints of which this worker has a file, the oldest first.
    pub fn keys(&self, worker: Worker) -> Vec<EpochKey> {
        let is_of_worker =
            |name: &str| EpochFileName::parse(name).is_some_and(|parsed| parsed.worker == worker);
        let names = listing(&self.directory, is_of_worker);
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
        let is_torn = |name: &str| !epoch_files::incomplete_files([name], worker).is_empty();
        for torn in listing(&self.directory, is_torn) {
            let _ = fs::remove_file(self.directory.join(torn));
        }
    }

    /// Removes checkpoints and static data of all workers of a job, including incomplete files.
    pub fn remove_job(&self, lineage: u64) {
        let is_of_job = |name: &str| !epoch_files::files_of_job([name], lineage).is_empty();
        for name in listing(&self.directory, is_of_job) {
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
        let is_earlier = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        for name in listing(&self.directory, is_earlier) {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Removes static data of a worker.
    pub fn remove_static(&self, worker: Worker) {
        let is_static = |name: &str| static_file::is_of_worker(name, worker);
        for name in listing(&self.directory, is_static) {
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
