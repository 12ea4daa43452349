//! Backups of files that the program has overwritten or removed.

use super::outcome::Outcome;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use understudy_catalogue::message;

/// Returns the error for a backup that is missing, incomplete or replaced.
pub fn lost_backup(backup: &Path) -> io::Error {
    let name = backup.file_name().unwrap_or_default().to_string_lossy();
    io::Error::other(message::backup_lost(name).to_string())
}

/// Opens a complete backup, which has at least `bytes` bytes.
///
/// # Errors
/// Fails with the errors of open(2), or if the backup is missing, incomplete or replaced.
pub fn open_backup(backup: &Path, outcome: Outcome, bytes: u64) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(backup) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(lost_backup(backup)),
        other => other?,
    };
    let found = file.metadata()?;
    match outcome.is(&found) && found.len() >= bytes {
        true => Ok(file),
        false => Err(lost_backup(backup)),
    }
}
