//! Memory that ranks of a node share while `/dev/shm` is full.
//!
//! MPI libraries keep it in files. Open MPI takes any directory for them, and aborts where the
//! file system has no room; MPICH takes `/dev/shm` only.

use super::Name;
use crate::private::{Directory, MEMORY};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

/// Room for a segment of Open MPI's `btl/sm`.
///
/// It has 16 MiB, and demands a margin.
const SEGMENT: u64 = 18 << 20;
/// Bytes that a rank uses of its segment while it sends short messages.
const USED: u64 = 256 << 10;

/// Returns how many bytes are left in `/dev/shm`, if this many ranks need more.
pub fn shortage(ranks: usize) -> Option<u64> {
    let file_system = rustix::fs::statvfs(MEMORY).ok()?;
    let free = file_system.f_bavail * file_system.f_frsize;
    (free < SEGMENT + USED * ranks as u64).then_some(free)
}

/// The directory of this user on a disk.
fn own_directory() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("understudy-{user}"))
}

/// The directory of a job that replaces its directory in `/dev/shm`.
fn disk_directory_path(in_memory: &Path) -> Option<PathBuf> {
    let job = in_memory.parent()?.file_name()?;
    Some(own_directory().join(job))
}

/// Makes the directory of a job that replaces its directory in `/dev/shm`.
pub fn make_disk_directory(in_memory: &Path) -> Option<PathBuf> {
    Directory::make(&own_directory()).ok()?;
    let path = disk_directory_path(in_memory)?;
    Directory::make(&path).ok()?;
    Some(path)
}

/// Removes that directory, with what killed ranks have left there.
pub fn remove_disk_directory(in_memory: &Path) {
    let Some(path) = disk_directory_path(in_memory) else {
        return;
    };
    if matches!(Directory::open(&own_directory()), Ok(Some(_))) {
        let _ = std::fs::remove_dir_all(path);
        // Only if it is empty.
        let _ = std::fs::remove_dir(own_directory());
    }
}

/// Reports once that the directory on disk is used.
pub fn report(free: u64, path: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        say!(
            "understudy: {MEMORY} has {} MiB left, too little for the memory that the MPI library \
             shares between ranks: it is in {} from now on, which may be slower; remove files from \
             {MEMORY} (`understudy clean`), or make it larger (--shm-size of a container)",
            free >> 20,
            path.display()
        );
    });
}

/// Generations whose MPI library has aborted while `/dev/shm` was full.
#[derive(Default)]
pub struct Aborts {
    last: Option<(Name, Instant)>,
}

impl Aborts {
    /// Time in which two generations abort for the same reason.
    const TOGETHER: Duration = Duration::from_secs(60);

    /// Notes an abort of a rank. The second generation in a row makes the cause certain.
    pub fn note(&mut self, generation: &Name, ranks: usize) -> Option<String> {
        let free = shortage(ranks)?;
        let before = self.last.replace((generation.clone(), Instant::now()));
        let (name, when) = before?;
        let is_certain = name != *generation && when.elapsed() < Self::TOGETHER;
        is_certain.then(|| {
            format!(
                "the MPI library has aborted twice, and {MEMORY} has {} MiB left, too little for \
                 the memory that it shares between ranks; the job ends; remove files from \
                 {MEMORY} (`understudy clean`), or make it larger (--shm-size of a container)",
                free >> 20
            )
        })
    }
}
