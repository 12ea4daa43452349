//! Backups of ranges of a file that are about to be overwritten.
//!
//! Several ranks may overwrite the same byte. All records are undone from the latest to the first,
//! so the record with the earliest time must contain the byte of the cut. The times are in this
//! order because each rank reads the old bytes before its record gets its time: if the rank has
//! read what another rank wrote, that write has an earlier record. Example: the byte is `a` at the
//! cut. Rank 0 records `a` at time 1 and writes `b`; rank 1 records `b` at time 2 and writes `c`.
//! The undo writes `b`, then `a`. Each rank needs one record per byte and section.
#![allow(unsafe_code)]

use super::backup::open_backup;
use super::file_call::metadata_of;
use super::file_id::another_file;
use super::inode;
use super::keeper::{self, MAX_IN_MEMORY};
use super::outcome::Outcome;
use super::recorder::{Recorded, Recorder};
use super::undo_log::{Effect, FileId};
use std::cell::OnceCell;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use understudy_policy::ranges::ByteRange;

/// Maximum number of overwritten bytes per section that are kept in the log.
///
/// The value is smaller in tests, so that tests exceed it.
const MAX_IN_LOG: u64 = if cfg!(test) { 500 } else { 16 << 20 };
/// Maximum number of old bytes that are read into memory.
///
/// A larger number of bytes is copied from file to file.
const MAX_BUFFERED: u64 = 16 << 20;

/// Open file whose old bytes are needed.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Open for reading and writing.
    Readable(&'a File),
    /// Open for writing only.
    Written(&'a File),
}

impl Source<'_> {
    fn file(&self) -> &File {
        let (Source::Readable(file) | Source::Written(file)) = self;
        file
    }

    /// Reads all these ranges into `bytes`, one after the other.
    fn read(&self, ranges: &[ByteRange], bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Source::Readable(file) => read(file, ranges, bytes),
            Source::Written(file) => read_in_separate_table(file, ranges, bytes),
        }
    }
}

fn read(file: &File, ranges: &[ByteRange], bytes: &mut [u8]) -> io::Result<()> {
    let mut rest = bytes;
    for &(offset, length) in ranges {
        let (range_bytes, others) = rest.split_at_mut(length as usize);
        file.read_exact_at(range_bytes, offset)?;
        rest = others;
    }
    Ok(())
}

/// Reads the ranges through another descriptor, in a thread with a separate descriptor table.
///
/// Closing a descriptor of the file in the shared table would release the program's locks on the
/// file (fcntl(2), unshare(2)).
fn read_in_separate_table(file: &File, ranges: &[ByteRange], bytes: &mut [u8]) -> io::Result<()> {
    let name = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let read_separately = || {
        // SAFETY: unshare(2) of this thread's table of descriptors.
        if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
            return Err(io::Error::last_os_error());
        }
        read(&File::open(name)?, ranges, bytes)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, read_separately)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(ErrorKind::Other.into()))
    })
}

impl Recorder {
    /// Records that ranges of a file are about to be written.
    ///
    /// The record contains the old bytes of the ranges, which are read from `source`. `name` is
    /// called only if some of these bytes have not been recorded yet.
    pub fn overwrite(
        &mut self,
        name: impl Fn() -> PathBuf,
        source: Source<'_>,
        ranges: &[ByteRange],
    ) -> io::Result<()> {
        let metadata = source.file().metadata()?;
        let id = FileId::from_metadata(&metadata);
        if !self.recorded.contains_key(&id) {
            self.record_first_use(&name(), &metadata)?;
        }
        // The file was created since the cut, or its content is recorded.
        if self.recorded.get(&id) != Some(&Recorded::Size) {
            return Ok(());
        }
        let recorded = self.overwritten.entry(id).or_default();
        let mut new = Vec::new();
        for &(offset, length) in ranges {
            let end = offset.saturating_add(length).min(metadata.len());
            recorded.add((offset, end.saturating_sub(offset)), &mut new);
        }
        match new.iter().map(|(_, length)| length).sum::<u64>() {
            0 => Ok(()),
            total if total <= MAX_BUFFERED => self.store_old(&name(), id, source, new, total),
            _ => self.store_large(&name(), id, source.file(), new),
        }
    }

    /// Records a file that is used for the first time in this section.
    ///
    /// A file that was created since the cut has no bytes to restore.
    fn record_first_use(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        if self.is_new(path, metadata) {
            self.recorded
                .insert(FileId::from_metadata(metadata), Recorded::Content);
            return Ok(());
        }
        self.size(path, metadata)
    }

    /// Stores old bytes in the log, or in a backup beside the file.
    ///
    /// The backup is used if these bytes are many, or the log has many bytes already. A file has
    /// one such backup, to which later bytes are appended.
    fn store_old(
        &mut self,
        path: &Path,
        id: FileId,
        source: Source<'_>,
        ranges: Vec<ByteRange>,
        length: u64,
    ) -> io::Result<()> {
        let mut bytes = vec![0; length as usize];
        source.read(&ranges, &mut bytes)?;
        let path = path.to_owned();
        if length <= MAX_IN_MEMORY && self.in_log + length <= MAX_IN_LOG {
            self.in_log += length;
            return self.write(Effect::Overwritten {
                path,
                id,
                ranges,
                bytes,
                backup: None,
                backup_offset: 0,
            });
        }
        let directory = path.parent().unwrap_or(&path);
        // The backup has another path if its directory has been renamed or removed.
        let pool = self
            .pools
            .remove(&id)
            .filter(|(pool, _)| metadata_of(pool).is_some());
        let (backup, backup_offset) = pool.unwrap_or_else(|| (self.keeper.name(directory), 0));
        self.write(Effect::Overwritten {
            path,
            id,
            ranges,
            bytes: Vec::new(),
            backup: Some(backup.clone()),
            backup_offset,
        })?;
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(backup_offset == 0)
            .mode(0o600);
        let pool = options.open(&backup)?;
        pool.write_all_at(&bytes, backup_offset)?;
        self.record_outcome(&backup, Outcome::from_metadata(&pool.metadata()?))?;
        self.pools.insert(id, (backup, backup_offset + length));
        Ok(())
    }

    /// Copies any number of old bytes to a backup beside the file.
    ///
    /// The copy takes long, and the time of the overwriting record must be later than the copy. So
    /// the backup is first recorded as a created file, which the undo would remove if the rank
    /// failed during the copy.
    fn store_large(
        &mut self,
        path: &Path,
        id: FileId,
        file: &File,
        ranges: Vec<ByteRange>,
    ) -> io::Result<()> {
        let directory = path.parent().unwrap_or(path).to_owned();
        let named = OnceCell::new();
        let make = |backup: &Path| {
            let mut options = OpenOptions::new();
            let to = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(backup)?;
            let mut end = 0;
            ranges.iter().try_for_each(|&(offset, length)| {
                end += length;
                keeper::copy_range((file, offset), (&to, end - length), length)
            })
        };
        let record = |path: &Path| Effect::Created {
            path: path.to_owned(),
        };
        let created = self.create_backup(&directory, record, |backup| {
            make(named.get_or_init(|| backup.to_owned()))
        });
        let backup = named.into_inner().unwrap_or_default();
        created?;
        let path = path.to_owned();
        let outcome = Outcome::from_metadata(&fs::symlink_metadata(&backup)?);
        self.write(Effect::Overwritten {
            path,
            id,
            ranges,
            bytes: Vec::new(),
            backup: Some(backup.clone()),
            backup_offset: 0,
        })?;
        self.record_outcome(&backup, outcome)
    }
}

/// Old bytes of a record in a backup.
pub struct BackupRange<'a> {
    pub path: &'a Path,
    pub offset: u64,
    /// Outcome of the record; `None` if the rank failed before the backup was complete.
    pub outcome: Option<Outcome>,
}

/// Restores old bytes, from `backup` or else from `bytes`.
///
/// Does nothing if the rank failed before its backup was complete: the file was not overwritten.
pub fn restore_ranges(
    path: &Path,
    id: FileId,
    ranges: &[ByteRange],
    bytes: &[u8],
    backup: Option<BackupRange<'_>>,
) -> io::Result<()> {
    let total: u64 = ranges.iter().map(|(_, length)| length).sum();
    match metadata_of(path) {
        None => return Ok(()),
        Some(found) if found.is_file() && FileId::from_metadata(&found) == id => {}
        Some(_) => return Err(another_file()),
    }
    let backup = match backup {
        Some(BackupRange { outcome: None, .. }) => return Ok(()),
        Some(BackupRange {
            path,
            offset,
            outcome: Some(outcome),
        }) => Some((open_backup(path, outcome, offset + total)?, offset)),
        None => None,
    };
    let file = inode::open_for_writing(path, id)?;
    // Number of old bytes that are restored.
    let mut done = 0;
    for &(offset, length) in ranges {
        match &backup {
            Some((backup, backup_offset)) => {
                keeper::copy_range((backup, backup_offset + done), (&file, offset), length)?
            }
            None => file.write_all_at(&bytes[done as usize..(done + length) as usize], offset)?,
        }
        done += length;
    }
    Ok(())
}
