//! Disk level of this process: directory, lineage, and files that it has and writes.
#![allow(unsafe_code)]

use super::checkpoint_directory::{CheckpointDirectory, explain};
use super::load::LoadedCheckpoint;
use super::progress::set_last_complete;
use super::writer::{WriteOutcome, Writer};
use super::{identity, static_file};
use crate::runtime_state::StateCell;
use crate::{process_info, system_calls};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::epochs::claim::ClaimError;
use understudy_formats::epochs::epoch_files::{self, EpochKey};
use understudy_formats::epochs::epoch_format::JobIdentity;
use understudy_image::store::PageStore;
use understudy_numbers::Worker;

/// Disk level of this process.
pub struct DiskLevel {
    pub places: CheckpointDirectory,
    pub every: u64,
    pub identity: JobIdentity,
    pub environment: u64,
    pub lineage: u64,
    /// Lineage that the job would have if this start were the first.
    pub start: u64,
    /// Term in the keys of the job's checkpoints (`understudy_formats::epochs::owner`).
    pub term: u64,
    /// Random number of the job, equal in all its processes.
    pub nonce: u64,
    pub writer: Option<Writer>,
    /// Checkpoint that is being written.
    pub writing: Option<EpochKey>,
    /// Last whole file of this process.
    pub written: Option<EpochKey>,
    /// Key for the checkpoint of the current cut, if it is to be written.
    pub due: Option<EpochKey>,
    /// Time of the last cut.
    pub cut: Instant,
    /// Checkpoints of which this worker has a file or is writing one.
    pub own_keys: BTreeSet<EpochKey>,
    /// Files of this worker in the directory; `None` if they are unknown.
    ///
    /// Known after the first removal of old files. The directory has files of all workers, so it is
    /// not read again at each checkpoint.
    pub files: Option<BTreeSet<EpochKey>>,
    /// Checkpoints of which all workers have whole files.
    pub complete_keys: BTreeSet<EpochKey>,
    /// Reason why this worker's last file could not be written.
    pub trouble: Option<String>,
    /// True if trouble of any worker has been reported to the user.
    pub is_trouble_reported: bool,
    /// Checkpoint on disk to which all workers roll back, until they have done so.
    ///
    /// The second value has the pages and the state of this worker, until `take_chosen` takes them.
    pub chosen: Option<(EpochKey, Option<LoadedCheckpoint>)>,
}

/// Disk level, if the job has one.
pub struct DiskState {
    /// `None` without a disk level.
    pub(super) level: StateCell<Option<DiskLevel>>,
}

impl DiskState {
    /// Returns the state at the start of the process.
    pub const fn start() -> DiskState {
        DiskState {
            level: StateCell::new(None),
        }
    }
}

impl DiskLevel {
    /// Opens the directory for files of this identity.
    pub fn new(directory: &Path, lineage: u64, nonce: u64, identity: JobIdentity) -> DiskLevel {
        let config = process_info::config();
        DiskLevel {
            places: CheckpointDirectory::open(directory),
            every: config.disk_every,
            identity,
            environment: identity::environment(),
            lineage,
            start: lineage,
            term: 0,
            nonce,
            writer: None,
            writing: None,
            written: None,
            due: None,
            cut: Instant::now(),
            own_keys: BTreeSet::new(),
            files: None,
            complete_keys: BTreeSet::new(),
            trouble: None,
            is_trouble_reported: false,
            chosen: None,
        }
    }

    /// Discards a checkpoint that was loaded and not used.
    pub fn discard_loaded(&mut self, store: &mut PageStore) {
        if let Some((_, Some(mut loaded))) = self.chosen.take_if(|(_, loaded)| loaded.is_some()) {
            loaded.image.clear(store);
        }
    }

    /// Returns the path of the static data of a worker.
    pub fn static_path(&self, worker: Worker) -> PathBuf {
        static_file::path(&self.places.directory, self.lineage, self.term, worker)
    }

    /// Returns the writer; starts its thread if necessary.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn writer(&mut self) -> io::Result<&mut Writer> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => Writer::start()?,
        };
        Ok(self.writer.insert(writer))
    }

    /// Records the outcome of a file, if the writer has reported one.
    pub fn poll_writer(&mut self, store: &mut PageStore) {
        if let Some(outcome) = self.writer.as_mut().and_then(Writer::outcome) {
            self.record_outcome(outcome, store);
        }
    }

    /// Waits for the file that is being written.
    pub fn finish(&mut self, store: &mut PageStore) {
        if let Some(outcome) = self.writer.as_mut().and_then(Writer::wait) {
            self.record_outcome(outcome, store);
        }
    }

    /// Records the outcome of the file that was being written.
    pub fn record_outcome(&mut self, outcome: WriteOutcome, store: &mut PageStore) {
        store.unpin();
        let Some(key) = self.writing.take() else {
            return;
        };
        match outcome {
            Ok(length) => {
                log::debug!("checkpoint {} is written: {length} bytes", key.epoch);
                (self.written, self.trouble) = (Some(key), None);
            }
            Err(error) => {
                self.own_keys.remove(&key);
                self.files = None;
                // A file that `Writer::stop` has abandoned is no trouble. If the directory is lost,
                // the job ends.
                let is_trouble = error.kind() != ErrorKind::Interrupted;
                self.trouble = is_trouble.then(|| explain(&error));
                self.places.may_change();
            }
        }
    }

    /// Reports to the user that files cannot be written, or can be written once more.
    ///
    /// `first` is the first worker with trouble, which reports the trouble.
    pub fn report_trouble(&mut self, first: Option<Worker>, worker: Worker) {
        match (first, &self.trouble) {
            (Some(first), Some(why)) if first == worker && !self.is_trouble_reported => {
                system_calls::print_message(message::checkpoints_not_written(
                    self.places.directory.display(),
                    why,
                ))
            }
            (None, _) if self.is_trouble_reported && worker == Worker(0) => {
                system_calls::print_message(message::checkpoints_written_again(
                    self.places.directory.display(),
                ))
            }
            _ => {}
        }
        self.is_trouble_reported = first.is_some();
    }

    /// Records that all workers have a file of a checkpoint.
    pub fn complete(&mut self, key: EpochKey, worker: Worker) {
        if self.complete_keys.insert(key) {
            log::debug!("checkpoint {} is complete on disk", key.epoch);
            set_last_complete(key.epoch);
            self.prune(worker);
        }
    }

    /// Claims the directory if that was impossible before.
    pub fn claim_late(&mut self) {
        let claimed = self
            .places
            .claim(self.nonce, Some(self.term), Duration::ZERO);
        self.trouble = claimed.err().map(|error| match error {
            ClaimError::System(error) => explain(&error),
            owned => owned.to_string(),
        });
    }

    /// Removes files of this worker that are not needed any more.
    pub fn prune(&mut self, worker: Worker) {
        if !self.places.may_change() {
            return;
        }
        let read = || BTreeSet::from_iter(self.places.keys(worker));
        let files = self.files.get_or_insert_with(read);
        files.extend(&self.own_keys);
        let expendable = epoch_files::obsolete_epochs(&*files, &self.complete_keys);
        files.retain(|key| !expendable.contains(key));
        self.places.remove(worker, &expendable);
        self.own_keys.retain(|key| !expendable.contains(key));
        while self.complete_keys.len() > 2 {
            self.complete_keys.pop_first();
        }
    }
}
