//! Directories for the memory that ranks of a node share, also while `/dev/shm` is full.
//!
//! MPI libraries keep this memory in files. Open MPI accepts any directory for the files, and
//! aborts if the file system is full; MPICH accepts `/dev/shm` only.

use crate::print_message::print_message;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_formats::private_directories::{PrivateDirectory, SHARED_MEMORY_DIRECTORY};
use understudy_pmi::{GenerationName, Namespace};

/// Room for a segment of Open MPI's `btl/sm`.
///
/// The segment has 16 MiB, and the library demands a margin.
const SEGMENT_BYTES: u64 = 18 << 20;
/// Bytes that a rank uses of its segment while it sends short messages.
const USED_BYTES: u64 = 256 << 10;

/// Returns how many bytes are left in `/dev/shm`, if this many ranks need more.
fn shortage(ranks: usize) -> Option<u64> {
    let file_system = rustix::fs::statvfs(SHARED_MEMORY_DIRECTORY).ok()?;
    let free = file_system.f_bavail * file_system.f_frsize;
    (free < SEGMENT_BYTES + USED_BYTES * ranks as u64).then_some(free)
}

/// Returns the directory of this user on a disk.
fn own_directory() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("understudy-{user}"))
}

/// Returns the name of the job's directory that contains this directory in `/dev/shm`.
fn job_of(in_memory: &Path) -> Option<&OsStr> {
    in_memory.parent()?.file_name()
}

/// Creates the directory on disk that replaces a job's directory in `/dev/shm`.
fn make_disk_directory(in_memory: &Path) -> Option<PathBuf> {
    let own = PrivateDirectory::make(&own_directory()).ok()?;
    let directory = own.make_below(job_of(in_memory)?).ok()?;
    Some(directory.path().to_owned())
}

/// Removes the directory on disk, with the files that killed ranks have left in it.
pub fn remove_disk_directory(in_memory: &Path) {
    if let (Some(job), Ok(Some(own))) =
        (job_of(in_memory), PrivateDirectory::open(&own_directory()))
    {
        let _ = own.remove_all(job);
        // This removes the directory only if it is empty.
        let _ = std::fs::remove_dir(own.path());
    }
}

/// Reports once that a directory on disk is used.
fn report(free: u64, path: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        print_message(message::shared_memory_elsewhere(
            SHARED_MEMORY_DIRECTORY,
            free >> 20,
            path.display(),
        ));
    });
}

/// Directories of a job for the memory that the ranks of this node share.
pub struct SegmentDirectories {
    memory: PathBuf,
    may_be_on_disk: bool,
}

impl SegmentDirectories {
    /// Returns directories below `memory`, a directory in `/dev/shm`.
    ///
    /// `may_be_on_disk` is true if the MPI library can share memory by files on a disk.
    pub fn new(memory: PathBuf, may_be_on_disk: bool) -> SegmentDirectories {
        SegmentDirectories {
            memory,
            may_be_on_disk,
        }
    }

    /// Chooses the directory of a generation; the directory is not created yet.
    ///
    /// Segments of killed processes are removed with their generation.
    pub fn choose(&self, generation: &Namespace) -> PathBuf {
        let name = generation.name.as_str();
        let ranks = generation.ranks_here().count();
        if self.may_be_on_disk
            && let Some(free) = shortage(ranks)
            && let Some(directory) = make_disk_directory(&self.memory)
        {
            report(free, &directory);
            return directory.join(name);
        }
        self.memory.join(name)
    }
}

impl Drop for SegmentDirectories {
    fn drop(&mut self) {
        remove_disk_directory(&self.memory);
    }
}

/// Record of the last generation whose MPI library has aborted while `/dev/shm` was full.
#[derive(Default)]
pub struct Aborts {
    last: Option<(GenerationName, Instant)>,
}

impl Aborts {
    /// Time within which aborts of two generations have the same cause.
    const TOGETHER: Duration = Duration::from_secs(60);

    /// Records the abort of a rank; returns the cause if the cause is certain.
    ///
    /// A full `/dev/shm` is the certain cause if ranks of two generations have aborted within
    /// [`Aborts::TOGETHER`].
    pub fn note(&mut self, generation: &GenerationName, ranks: usize) -> Option<String> {
        let free = shortage(ranks)?;
        let before = self.last.replace((generation.clone(), Instant::now()));
        let (name, when) = before?;
        let is_certain = name != *generation && when.elapsed() < Self::TOGETHER;
        is_certain.then(|| {
            message::no_shared_memory_for_mpi(SHARED_MEMORY_DIRECTORY, free >> 20).to_string()
        })
    }
}
