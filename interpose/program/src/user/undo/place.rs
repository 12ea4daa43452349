//! Where the logs of a job are.
//!
//! They are in the user's directory in memory that outlives a process
//! (`understudy_formats::private`). With a disk level they are beside the epochs, since the job may
//! be started again when the memory is gone, or on another node; if the disk takes no more, in
//! memory again, and a mark stays.

use super::log::{Log, RENEWED};
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use understudy_catalogue::message;
use understudy_formats::private::{in_memory, open_own};
use understudy_numbers::{Epoch, ProcessNumber};

/// What a log has become that had to go on in memory.
pub const MOVED: &str = "undo-moved";
const LOG: &str = "undo";
/// A number: 1 + the last epoch after whose cut a thread of the process has changed files, which
/// cannot be undone.
const THREADS: &str = "undo-threads";
/// Held by the one process of a node, or of a job on disk, that undoes effects.
pub const LOCK: &str = "undo-lock";

/// Label of what is kept for the children of a process.
#[derive(Clone, Copy, Debug)]
pub struct ChildLogLabel(pub ProcessNumber);

impl Display for ChildLogLabel {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}c", self.0)
    }
}

#[derive(Clone, Debug)]
pub enum Place {
    /// In memory; with the name of the job and the number of its ranks.
    Memory(String, u32),
    Disk {
        directory: PathBuf,
        /// The same in all starts of the job.
        lineage: String,
        /// Not the same in two starts.
        start: u64,
    },
}

impl Place {
    /// The log of a process of this start of the job.
    pub fn log_of(&self, process: ProcessNumber) -> PathBuf {
        self.named(&process)
    }

    /// Returns the path of the log of a process's children.
    pub fn log_of_children(&self, process: ProcessNumber) -> PathBuf {
        self.named(&ChildLogLabel(process))
    }

    fn named(&self, label: &dyn Display) -> PathBuf {
        match self {
            Place::Memory(job, _) => in_memory().join(format!("understudy-{job}-{label}.{LOG}")),
            Place::Disk { directory, .. } => directory.join(self.name_on_disk(label)),
        }
    }

    /// Where the log goes if the disk takes no more.
    pub fn refuge_of(&self, label: &dyn Display) -> PathBuf {
        in_memory().join(self.name_on_disk(label))
    }

    fn name_on_disk(&self, label: &dyn Display) -> String {
        match self {
            Place::Memory(job, _) => format!("understudy-{job}-{label}.{LOG}"),
            Place::Disk { lineage, start, .. } => {
                format!("understudy-{lineage}-{start:016x}-{label}.{LOG}")
            }
        }
    }

    /// What is in the names of backups.
    pub fn job(&self) -> &str {
        match self {
            Place::Memory(job, _) | Place::Disk { lineage: job, .. } => job,
        }
    }

    /// All logs that there may be, those of earlier starts of the job included.
    pub fn logs(&self) -> Vec<PathBuf> {
        match self {
            Place::Memory(_, ranks) => self.in_memory(*ranks).collect(),
            Place::Disk { directory, .. } => {
                let mut all = self.found(directory, LOG);
                all.extend(self.found(&in_memory(), LOG));
                all
            }
        }
    }

    fn in_memory(&self, ranks: u32) -> impl Iterator<Item = PathBuf> {
        (0..ranks)
            .map(ProcessNumber)
            .flat_map(|rank| [self.log_of(rank), self.log_of_children(rank)])
    }

    fn found(&self, directory: &Path, extension: &str) -> Vec<PathBuf> {
        let start = format!("understudy-{}-", self.job());
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with(&start) && path.extension() == Some(OsStr::new(extension))
        };
        entries.map(|entry| entry.path()).filter(is_ours).collect()
    }

    /// Where it is noted what threads of a process of this start have done, if that is to outlive
    /// the node.
    pub fn of_threads(&self, process: ProcessNumber) -> PathBuf {
        self.log_of(process).with_extension(THREADS)
    }

    /// Whether threads have changed files after the cut of this epoch, in any start of the job.
    pub fn have_effects_since(&self, epoch: Epoch) -> bool {
        let Place::Disk { directory, .. } = self else {
            return false;
        };
        let noted = |path: &PathBuf| {
            let mut bytes = [0; size_of::<u64>()];
            open_own(path, libc::O_RDONLY)
                .ok()?
                .read_exact(&mut bytes)
                .ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        self.found(directory, THREADS)
            .iter()
            .filter_map(noted)
            .any(|noted| noted > epoch.0)
    }

    /// Whether all logs are still there of an earlier start of the job.
    pub fn check(&self) -> io::Result<()> {
        let Place::Disk { directory, .. } = self else {
            return Ok(());
        };
        for mark in self.found(directory, MOVED) {
            let log = in_memory()
                .join(mark.file_name().unwrap_or_default())
                .with_extension(LOG);
            if !log.exists() {
                let why = message::backup_on_other_node(log.display()).to_string();
                return Err(io::Error::new(ErrorKind::NotFound, why));
            }
        }
        Ok(())
    }

    /// Whether a log on disk has gone on in memory.
    pub fn has_moved(&self, log: &Path) -> bool {
        let refuge = log.file_name().map(|name| in_memory().join(name));
        refuge.is_some_and(|refuge| refuge != log && refuge.exists())
    }

    /// What a process may leave that dies while it renews its log, or while it undoes effects.
    fn halves(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for extension in [RENEWED, LOCK, THREADS] {
            match self {
                Place::Memory(_, ranks) => {
                    let logs = self.in_memory(*ranks);
                    all.extend(logs.map(|log| log.with_extension(extension)));
                }
                Place::Disk { directory, .. } => {
                    all.extend(self.found(directory, extension));
                    all.extend(self.found(&in_memory(), extension));
                }
            }
        }
        all
    }

    /// Removes the logs of processes that are no more; all logs if `nobody_goes_back`, since a
    /// killed process holds its own until the kernel has torn it down.
    pub fn clean(&self, nobody_goes_back: bool) {
        let logs = self
            .logs()
            .into_iter()
            .filter_map(|path| Log::open(&path).ok().flatten());
        for log in logs.filter(|log| nobody_goes_back || log.is_abandoned()) {
            let _ = log.remove();
        }
        for path in self.halves() {
            if !nobody_goes_back && !is_abandoned(&path) {
                continue;
            }
            let _ = fs::remove_file(path);
        }
        if let Place::Disk { directory, .. } = self {
            for mark in self.found(directory, MOVED) {
                let _ = fs::remove_file(mark);
            }
        }
    }
}

/// Whether there is such a file of ours that no living process holds.
fn is_abandoned(path: &Path) -> bool {
    open_own(path, libc::O_WRONLY).is_ok_and(|file| file.try_lock().is_ok())
}
