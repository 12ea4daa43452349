//! The events of a job on its clock, read from its files in each pass.

use crate::Event;
use crate::merge::Merge;
use serde::{Serialize, Serializer};
use std::cell::Cell;
use std::fs::Metadata;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use understudy_formats::events::{EventReader, ProcessNumber};
use understudy_formats::private_directories::open_regular;

/// Number of bytes that are read ahead in all files together.
///
/// The limits for one file take precedence.
const READ_AHEAD: usize = 8 << 20;
/// Least number of bytes that are read ahead in one file.
const MIN_READ_AHEAD_PER_FILE: usize = 4 << 10;
/// Greatest number of bytes that are read ahead in one file.
const MAX_READ_AHEAD_PER_FILE: usize = 64 << 10;

/// An event file, and the extent of its complete records.
#[derive(Debug)]
pub(super) struct EventFile {
    pub path: PathBuf,
    pub id: FileId,
    pub rank: ProcessNumber,
    /// Beginning of the file on the job's clock, in nanoseconds.
    pub since_ns: u64,
    /// Number of bytes up to the end of the last valid record.
    pub length: u64,
}

/// Identity of a file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// The events of a job in order of time.
///
/// Each pass reads the files again: memory depends on the number of files, not on their length.
#[derive(Debug, Default)]
pub struct Timeline {
    pub(super) files: Vec<EventFile>,
    has_changed: Cell<bool>,
}

impl Timeline {
    pub(super) fn new(files: Vec<EventFile>) -> Self {
        Self {
            files,
            has_changed: Cell::new(false),
        }
    }

    /// Returns the events from the first to the last.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        let chunk = (READ_AHEAD / self.files.len().max(1))
            .clamp(MIN_READ_AHEAD_PER_FILE, MAX_READ_AHEAD_PER_FILE);
        Merge::new(self.files.iter().map(|file| self.events_of(file, chunk)))
    }

    /// True if a pass found fewer records than the first pass.
    pub fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    fn events_of<'a>(&'a self, file: &'a EventFile, chunk: usize) -> impl Iterator<Item = Event> {
        // `RecordReader` opens the file for each read, so reads are as large as the buffer.
        let buffered = BufReader::with_capacity(chunk, RecordReader { file, position: 0 });
        let mut reader = EventReader::new(buffered, chunk).ok();
        self.has_changed
            .set(self.has_changed.get() || reader.is_none());
        std::iter::from_fn(move || match reader.as_mut()?.next_framed()? {
            Ok(framed) => Some(Event::new(
                file.rank,
                file.since_ns,
                framed.record,
                framed.bytes,
            )),
            Err(_) => {
                self.has_changed.set(true);
                None
            }
        })
    }
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// Reader of the complete records of a file, which opens the file for each read.
///
/// A job may have more files than a process may open.
struct RecordReader<'a> {
    file: &'a EventFile,
    position: u64,
}

impl Read for RecordReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.length - self.position).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        if wanted == 0 {
            return Ok(0);
        }
        let file = open_regular(&self.file.path)?;
        if FileId::of(&file.metadata()?) != self.file.id {
            return Err(io::Error::other("another file has taken its place"));
        }
        let read = file.read_at(&mut into[..wanted], self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
