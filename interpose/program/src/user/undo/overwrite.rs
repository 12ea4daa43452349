//! Backups of ranges of a file that are about to be overwritten.
//!
//! The old bytes are read before the record gets its time. So a record never contains bytes that a
//! rank with a later record has written. Among the records of all ranks for one byte, the first one
//! contains the byte of the cut: whatever the order in which ranks write, undoing all records from
//! the latest to the first restores it. A rank needs one record per byte and section.
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
/// Smaller in tests, which thus reach it.
const MAX_IN_LOG: u64 = if cfg!(test) { 500 } else { 16 << 20 };
/// Size from which bytes are copied from file to file.
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
        let (part, after) = rest.split_at_mut(length as usize);
        file.read_exact_at(part, offset)?;
        rest = after;
    }
    Ok(())
}

/// Reads the ranges through another descriptor, in a thread with a separate descriptor table.
///
/// Closing a descriptor of the file in the shared table would release the program's locks on the
/// file (fcntl(2), unshare(2)).
fn read_in_separate_table(file: &File, ranges: &[ByteRange], bytes: &mut [u8]) -> io::Result<()> {
    let name = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    let act = || {
        // SAFETY: unshare(2) of this thread's table of descriptors.
        if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
            return Err(io::Error::last_os_error());
        }
        read(&File::open(name)?, ranges, bytes)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, act)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(ErrorKind::Other.into()))
    })
}

impl Recorder {
    /// Records that ranges of a file are about to be written.
    ///
    /// The record contains their old bytes, which are read from `source`. Most ranges have already
    /// been recorded, and the file's name is not needed.
    pub fn overwrite(
        &mut self,
        name: impl Fn() -> PathBuf,
        source: Source<'_>,
        ranges: &[ByteRange],
    ) -> io::Result<()> {
        let metadata = source.file().metadata()?;
        let id = FileId::of(&metadata);
        if !self.recorded.contains_key(&id) {
            self.record_first_use(&name(), &metadata)?;
        }
        // The file was created since the cut, or its content is recorded.
        if self.recorded.get(&id) != Some(&Recorded::Size) {
            return Ok(());
        }
        let known = self.overwritten.entry(id).or_default();
        let mut new = Vec::new();
        for &(offset, length) in ranges {
            let end = offset.saturating_add(length).min(metadata.len());
            known.add((offset, end.saturating_sub(offset)), &mut new);
        }
        match new.iter().map(|(_, length)| length).sum::<u64>() {
            0 => Ok(()),
            total if total <= MAX_BUFFERED => self.keep_old(&name(), id, source, new, total),
            _ => self.keep_large(&name(), id, source.file(), new),
        }
    }

    /// Records a file that is used for the first time in this section.
    ///
    /// A file that was created since the cut has no bytes to restore.
    fn record_first_use(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        if self.is_new(path, metadata) {
            self.recorded
                .insert(FileId::of(metadata), Recorded::Content);
            return Ok(());
        }
        self.size(path, metadata)
    }

    /// Keeps old bytes in the log, or many in a file beside this one.
    ///
    /// The bytes are appended to those that the file beside this one already contains.
    fn keep_old(
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
                place: 0,
            });
        }
        let directory = path.parent().unwrap_or(&path);
        // The backup has another path if its directory has been renamed or removed.
        let pool = self
            .pools
            .remove(&id)
            .filter(|(pool, _)| metadata_of(pool).is_some());
        let (backup, place) = pool.unwrap_or_else(|| (self.keeper.name(directory), 0));
        self.write(Effect::Overwritten {
            path,
            id,
            ranges,
            bytes: Vec::new(),
            backup: Some(backup.clone()),
            place,
        })?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(place == 0).mode(0o600);
        let pool = options.open(&backup)?;
        pool.write_all_at(&bytes, place)?;
        self.conclude(&backup, Outcome::of(&pool.metadata()?))?;
        self.pools.insert(id, (backup, place + length));
        Ok(())
    }

    /// Copies bytes of any number to a backup beside the file.
    ///
    /// The backup has a separate record until it is complete. Without that record it would never be
    /// removed if the rank failed meanwhile.
    fn keep_large(
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
        let made = self.kept(&directory, record, |backup| {
            make(named.get_or_init(|| backup.to_owned()))
        });
        let backup = named.into_inner().unwrap_or_default();
        made?;
        let path = path.to_owned();
        let outcome = Outcome::of(&fs::symlink_metadata(&backup)?);
        self.write(Effect::Overwritten {
            path,
            id,
            ranges,
            bytes: Vec::new(),
            backup: Some(backup.clone()),
            place: 0,
        })?;
        self.conclude(&backup, outcome)
    }
}

/// Restores old bytes.
///
/// The file was not overwritten if the rank failed before all old bytes were kept.
pub fn restore_ranges(
    path: &Path,
    id: FileId,
    ranges: &[ByteRange],
    bytes: &[u8],
    kept: Option<(&Path, u64, Option<Outcome>)>,
) -> io::Result<()> {
    let total: u64 = ranges.iter().map(|(_, length)| length).sum();
    match metadata_of(path) {
        None => return Ok(()),
        Some(found) if found.is_file() && FileId::of(&found) == id => {}
        Some(_) => return Err(another_file()),
    }
    let kept = match kept {
        Some((_, _, None)) => return Ok(()),
        Some((backup, place, Some(outcome))) => {
            Some((open_backup(backup, outcome, place + total)?, place))
        }
        None => None,
    };
    let file = inode::open_for_writing(path, id)?;
    let mut at = 0;
    for &(offset, length) in ranges {
        match &kept {
            Some((backup, place)) => {
                keeper::copy_range((backup, place + at), (&file, offset), length)?
            }
            None => file.write_all_at(&bytes[at as usize..(at + length) as usize], offset)?,
        }
        at += length;
    }
    Ok(())
}
