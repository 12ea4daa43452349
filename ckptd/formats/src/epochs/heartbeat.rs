//! Counter in an owner file, which the owner rewrites while it lives.
//!
//! A job on another host cannot see the processes of an owner, but reads their file. Contents are
//! compared, never times: clocks of hosts differ, and clients of NFS keep attributes for a while.

use super::owner::next_count;
use crate::private_directories::open_own;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval at which an owner rewrites its file.
pub const BEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Time without a change after which an owner counts as dead.
pub const PATIENCE: Duration = Duration::from_secs(35);

fn inode_of_parent(path: &Path) -> Option<u64> {
    Some(std::fs::metadata(path.parent()?).ok()?.ino())
}

/// Writer of the counter, one of several for a file.
///
/// Each node of a job has one. A writer that sees a change since its last beat leaves the file as
/// it is, so that one node at a time writes, and another one goes on at most two intervals later.
#[derive(Debug)]
pub struct Heartbeat {
    path: PathBuf,
    /// Inode of the directory.
    directory: Option<u64>,
    /// Content at the last beat.
    seen: Option<String>,
}

impl Heartbeat {
    pub fn new(path: &Path) -> Heartbeat {
        Heartbeat {
            path: path.to_owned(),
            directory: inode_of_parent(path),
            seen: None,
        }
    }

    /// Writes the next count, unless another process has done so since the last call.
    ///
    /// The file is opened anew: a client of NFS asks the server at open(2).
    ///
    /// # Errors
    /// Fails with `NotFound` if the file was removed, with `NotADirectory` if the directory was
    /// removed, with `InvalidData` if the file was damaged, and with errors of open(2), read(2),
    /// write(2) and fsync(2).
    pub fn beat(&mut self) -> io::Result<()> {
        let mut file = match open_own(&self.path, libc::O_RDWR) {
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && inode_of_parent(&self.path) != self.directory =>
            {
                return Err(ErrorKind::NotADirectory.into());
            }
            file => file?,
        };
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        if self.seen.as_ref().is_none_or(|seen| *seen == text) {
            let (at, count) = next_count(&text).ok_or(ErrorKind::InvalidData)?;
            file.write_all_at(count.as_bytes(), at as u64)?;
            file.sync_all()?;
            text.replace_range(at..at + count.len(), &count);
        }
        self.seen = Some(text);
        Ok(())
    }
}
