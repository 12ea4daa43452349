//! Locations of the logs of a job.
//!
//! The logs are in the user's directory in memory that outlives a process
//! (`understudy_formats::private_directories`). If the job keeps checkpoints on disk, the logs are
//! beside the checkpoints, because the job may be restarted on another node or after the memory
//! was lost. If the disk is full, a log continues in memory, and a mark stays on disk.

use super::undo_log::{REWRITTEN, UndoLog};
use crate::user::job_files::job_files;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use understudy_catalogue::message;
use understudy_formats::private_directories::{in_memory, open_own};
use understudy_numbers::{Epoch, ProcessNumber};

/// Extension of the mark on disk for a log that had to continue in memory.
pub const MOVED: &str = "undo-moved";
/// Extension of a log.
const LOG: &str = "undo";
/// Extension of a file that records effects of threads without the MPI lock.
///
/// Such effects cannot be undone. The file contains 1 + the number of the last checkpoint after
/// whose cut such a thread of the process has changed files.
const THREADS: &str = "undo-threads";
/// Extension of the lock that a process holds while it undoes effects.
///
/// With logs in memory, each node has one lock; with logs on disk, the job has one lock.
pub const LOCK: &str = "undo-lock";

/// Label of the log and the backups for children of a process.
#[derive(Clone, Copy, Debug)]
pub struct ChildLogLabel(pub ProcessNumber);

impl Display for ChildLogLabel {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{}c", self.0)
    }
}

/// Location of a job's logs.
#[derive(Clone, Debug)]
pub enum LogLocation {
    /// The user's directory in memory.
    Memory {
        /// Name of the job, as in file names.
        job: String,
        /// Number of processes that the job has had.
        ranks: u32,
    },
    /// The directory of the checkpoints on disk.
    Disk {
        directory: PathBuf,
        /// Identifier of the job over all its starts.
        lineage: String,
        /// Number of one start of the job.
        start: u64,
    },
}

impl LogLocation {
    /// Returns the path of the log of a process of this start of the job.
    pub fn log_of(&self, process: ProcessNumber) -> PathBuf {
        self.named(&process)
    }

    /// Returns the path of the log of a process's children.
    pub fn log_of_children(&self, process: ProcessNumber) -> PathBuf {
        self.named(&ChildLogLabel(process))
    }

    fn named(&self, label: &dyn Display) -> PathBuf {
        match self {
            LogLocation::Memory { job, .. } => {
                in_memory().join(format!("understudy-{job}-{label}.{LOG}"))
            }
            LogLocation::Disk { directory, .. } => directory.join(self.name_on_disk(label)),
        }
    }

    /// Returns the path at which a log continues if the disk is full.
    pub fn fallback_of(&self, label: &dyn Display) -> PathBuf {
        in_memory().join(self.name_on_disk(label))
    }

    fn name_on_disk(&self, label: &dyn Display) -> String {
        match self {
            LogLocation::Memory { job, .. } => format!("understudy-{job}-{label}.{LOG}"),
            LogLocation::Disk { lineage, start, .. } => {
                format!("understudy-{lineage}-{start:016x}-{label}.{LOG}")
            }
        }
    }

    /// Returns the part of the names of backups that identifies the job.
    pub fn job(&self) -> &str {
        match self {
            LogLocation::Memory { job, .. } | LogLocation::Disk { lineage: job, .. } => job,
        }
    }

    /// Lists the paths of all logs.
    ///
    /// Includes the logs of earlier starts of the job.
    ///
    /// # Errors
    /// Fails if the directory in memory cannot be read.
    pub fn logs(&self) -> io::Result<Vec<PathBuf>> {
        match self {
            LogLocation::Memory { job, ranks } => files_in_memory(job, *ranks, LOG),
            LogLocation::Disk { directory, .. } => {
                let mut all = self.found(directory, LOG);
                all.extend(self.found(&in_memory(), LOG));
                Ok(all)
            }
        }
    }

    fn found(&self, directory: &Path, extension: &str) -> Vec<PathBuf> {
        let start = format!("understudy-{}-", self.job());
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let is_of_job = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with(&start) && path.extension() == Some(OsStr::new(extension))
        };
        entries
            .map(|entry| entry.path())
            .filter(is_of_job)
            .collect()
    }

    /// Returns the file that records effects of a process's threads.
    ///
    /// The file is used if the record has to outlive the node.
    pub fn thread_effects_of(&self, process: ProcessNumber) -> PathBuf {
        self.log_of(process).with_extension(THREADS)
    }

    /// True if threads without the MPI lock have changed files after the cut of `epoch`.
    ///
    /// Considers all starts of the job.
    pub fn have_effects_since(&self, epoch: Epoch) -> bool {
        let LogLocation::Disk { directory, .. } = self else {
            return false;
        };
        let recorded = |path: &PathBuf| {
            let mut bytes = [0; size_of::<u64>()];
            open_own(path, libc::O_RDONLY)
                .ok()?
                .read_exact(&mut bytes)
                .ok()?;
            Some(u64::from_ne_bytes(bytes))
        };
        self.found(directory, THREADS)
            .iter()
            .filter_map(recorded)
            .any(|recorded| recorded > epoch.0)
    }

    /// Checks that all logs of earlier starts of the job still exist.
    pub fn check(&self) -> io::Result<()> {
        let LogLocation::Disk { directory, .. } = self else {
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

    /// True if a log on disk continues in memory.
    pub fn has_moved(&self, log: &Path) -> bool {
        let fallback = log.file_name().map(|name| in_memory().join(name));
        fallback.is_some_and(|fallback| fallback != log && fallback.exists())
    }

    /// Lists rewritten logs, locks, and files that record effects of threads.
    ///
    /// A process that failed while it rewrote its log or undid effects has left the first two.
    fn partial_files(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for extension in [REWRITTEN, LOCK, THREADS] {
            match self {
                LogLocation::Memory { job, ranks } => {
                    all.extend(files_in_memory(job, *ranks, extension).unwrap_or_default());
                }
                LogLocation::Disk { directory, .. } => {
                    all.extend(self.found(directory, extension));
                    all.extend(self.found(&in_memory(), extension));
                }
            }
        }
        all
    }

    /// Removes the logs of ended processes.
    ///
    /// Removes all logs, even locked ones, if no process can roll back any more: a killed process
    /// holds the lock of its log until the kernel has released the resources of the process.
    pub fn clean(&self, is_rollback_impossible: bool) {
        let logs = self
            .logs()
            .unwrap_or_default()
            .into_iter()
            .filter_map(|path| UndoLog::open(&path).ok().flatten());
        for log in logs.filter(|log| is_rollback_impossible || log.is_abandoned()) {
            let _ = log.remove();
        }
        for path in self.partial_files() {
            if !is_rollback_impossible && !is_abandoned(&path) {
                continue;
            }
            let _ = fs::remove_file(path);
        }
        if let LogLocation::Disk { directory, .. } = self {
            for mark in self.found(directory, MOVED) {
                let _ = fs::remove_file(mark);
            }
        }
    }
}

/// Lists the files of the first `ranks` processes and of their children, with this extension.
fn files_in_memory(job: &str, ranks: u32, extension: &str) -> io::Result<Vec<PathBuf>> {
    let suffixes = [format!(".{extension}"), format!("c.{extension}")];
    let suffixes = suffixes.each_ref().map(String::as_str);
    job_files(
        &in_memory(),
        &format!("understudy-{job}-"),
        ranks,
        &suffixes,
    )
}

/// True if the file exists and is not locked by a living process.
///
/// A file of another user counts as missing.
fn is_abandoned(path: &Path) -> bool {
    open_own(path, libc::O_WRONLY).is_ok_and(|file| file.try_lock().is_ok())
}
