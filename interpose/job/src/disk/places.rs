//! Directory of a disk level, and this job's files in it.

use super::load::{Loaded, load};
use super::static_file;
use crate::{sys, told};
use understudy_formats::epochs::catalogue::{self, Key, Name};
use understudy_formats::epochs::format::{Damage, Identity};

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use understudy_formats::epochs::owner::{self, ClaimError, OWNER, Owner, Ownership};
use understudy_formats::private::is_own;
use understudy_image::store::PageStore;
use understudy_numbers::Worker;

/// Directory for the files of the workers.
pub struct Places {
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

impl Places {
    /// Creates missing directories.
    ///
    /// An error on disk is reported when the first checkpoint cannot be written.
    pub fn open(directory: &Path) -> Places {
        let _ = fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(directory);
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        Places {
            directory,
            ownership: None,
        }
    }

    /// Claims the directory on disk for this process's job.
    ///
    /// A directory that cannot be written has no owner; the error is reported at the first write.
    ///
    /// # Errors
    /// The reason for which the job must not start.
    pub fn claim(&mut self) -> Result<(), String> {
        let own = Owner::current(&told::job_of_launcher(), told::variable);
        match owner::claim(&self.directory, &own, |file| sys::lift_owned(file).into()) {
            Ok(ownership) => self.ownership = Some(ownership),
            Err(ClaimError::System(_)) if !self.directory.join(OWNER).exists() => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Releases the directory for other jobs.
    pub fn give_up(&mut self) {
        if let Some(ownership) = self.ownership.take() {
            ownership.remove();
        }
    }

    /// Returns the checkpoints of which this worker has a file, the oldest first.
    pub fn keys(&self, worker: Worker) -> Vec<Key> {
        let names = listing(&self.directory);
        catalogue::of_worker(names.iter().map(String::as_str), worker)
    }

    pub fn load(
        &self,
        name: Name,
        own: &Identity,
        store: &mut PageStore,
    ) -> Result<Loaded, Damage> {
        load(&self.directory, name, own, store)
    }

    /// Removes files of a worker.
    pub fn remove(&self, worker: Worker, keys: &[Key]) {
        for &key in keys {
            let name = Name { key, worker }.to_string();
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Removes incomplete files of a worker.
    pub fn remove_torn(&self, worker: Worker) {
        let names = listing(&self.directory);
        for torn in catalogue::torn(names.iter().map(String::as_str), worker) {
            let _ = fs::remove_file(self.directory.join(torn));
        }
    }

    /// Removes checkpoints and static data of all workers of a job, including incomplete files.
    pub fn remove_job(&self, lineage: u64) {
        let names = listing(&self.directory);
        for name in catalogue::of_job(names.iter().map(String::as_str), lineage) {
            let _ = fs::remove_file(self.directory.join(name));
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
