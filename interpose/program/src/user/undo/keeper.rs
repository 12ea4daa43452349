//! Creation of backups of content that an effect destroys.
#![allow(unsafe_code)]

use std::fmt::Display;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use understudy_abi::descriptor_facts::BACKUP_PREFIX;

/// Maximum size in bytes of backups that are stored in memory.
pub const MAX_IN_MEMORY: u64 = 64 << 10;

/// Maximum number of bytes that are copied through memory at once.
const PIECE_BYTES: usize = 1 << 20;

/// Location and names of a rank's backups.
pub struct BackupStore {
    /// Directory in memory.
    pub memory: PathBuf,
    /// Prefix of the hidden names of all backups of the job.
    pub prefix: String,
    /// Part of the names that distinguishes this process's backups from others of the job.
    label: String,
    count: u64,
}

impl BackupStore {
    /// Creates a store; `label` must be unique in the job.
    pub fn new(memory: &Path, job: &str, label: &dyn Display) -> BackupStore {
        BackupStore {
            memory: memory.to_owned(),
            prefix: format!("{BACKUP_PREFIX}{job}-"),
            label: label.to_string(),
            count: 0,
        }
    }

    /// Returns an unused name in a directory.
    pub fn name(&mut self, directory: &Path) -> PathBuf {
        loop {
            self.count += 1;
            let path = directory.join(format!("{}{}-{}", self.prefix, self.label, self.count));
            if path.symlink_metadata().is_err() {
                return path;
            }
        }
    }

    /// True for the path of a backup of this job.
    pub fn is_backup(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(self.prefix.as_bytes())
    }

    /// Returns the backups in a directory; `None` if the directory has other entries.
    pub fn only_backups(&self, directory: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        let mut backups = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            if !entry
                .file_name()
                .as_bytes()
                .starts_with(self.prefix.as_bytes())
            {
                return Ok(None);
            }
            backups.push(entry.path());
        }
        Ok(Some(backups))
    }
}

/// Creates a backup of a file whose name is about to be removed.
///
/// The backup is a second name of the file in its directory if possible, and otherwise a copy.
pub fn link(path: &Path, backup: &Path, metadata: &Metadata) -> io::Result<()> {
    match std::fs::hard_link(path, backup) {
        Err(_) if metadata.is_symlink() => symlink(std::fs::read_link(path)?, backup),
        Err(_) if metadata.is_file() => {
            copy(path, backup)?;
            std::fs::set_permissions(backup, metadata.permissions())
        }
        other => other,
    }
}

/// Creates a copy of a file's content.
pub fn copy(path: &Path, backup: &Path) -> io::Result<()> {
    let from = File::open(path)?;
    let to = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(backup)?;
    let result = clone_or_copy(&from, &to);
    if result.is_err() {
        let _ = std::fs::remove_file(backup);
    }
    result
}

/// Copies the content of a file to an empty file.
pub fn clone_or_copy(mut from: &File, mut to: &File) -> io::Result<()> {
    // SAFETY: ioctl_ficlone(2) on two open files of the caller.
    if unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONE as _, from.as_raw_fd()) } == 0 {
        return Ok(());
    }
    io::copy(&mut from, &mut to).map(drop)
}

/// Copies a range of a file to an offset of another file.
///
/// Uses copy_file_range(2), which may share the data. If this call fails, copies in pieces.
pub fn copy_range(
    (from, mut from_offset): (&File, u64),
    (to, mut to_offset): (&File, u64),
    length: u64,
) -> io::Result<()> {
    let (end, mut buffer) = (from_offset + length, Vec::new());
    while from_offset < end {
        let length = (end - from_offset).min(1 << 30) as usize;
        let [mut read_at, mut write_at] =
            [from_offset, to_offset].map(|offset| offset as libc::off64_t);
        let (source, target) = (from.as_raw_fd(), to.as_raw_fd());
        // SAFETY: copy_file_range(2) on two files, with offsets of this frame.
        let copied = unsafe {
            libc::copy_file_range(source, &mut read_at, target, &mut write_at, length, 0)
        };
        let copied = match copied {
            1.. => copied as u64,
            // copy_file_range(2) has failed, for example between these file systems.
            _ => {
                buffer.resize(length.min(PIECE_BYTES), 0);
                from.read_exact_at(&mut buffer, from_offset)?;
                to.write_all_at(&buffer, to_offset)?;
                buffer.len() as u64
            }
        };
        from_offset += copied;
        to_offset += copied;
    }
    Ok(())
}
