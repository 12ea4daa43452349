//! Undo log: one file per rank, which outlives a killed rank.
//!
//! The file is in memory (tmpfs), or beside the checkpoints on disk.
//!
//! ```text
//!   magic, version │ length u32, checksum u64, line │ length, checksum, line │ …
//! ```
//!
//! A record is written by one write(2), before its backup is created and before its effect happens.
//! An incomplete record at the end means that the rank failed in that write, so the effect has not
//! happened. The owner holds a lock (flock(2)) as long as it lives.
//!
//! Outcomes ([`super::outcome`]) follow records. The file is truncated at an undone record, unless
//! an outcome of an earlier record follows the undone record. In this case a line that the record
//! is undone is appended: an interrupted undo, which is repeated, still needs the outcome.

use super::anchor::directory_of;
pub use super::effect::Effect;
pub use super::file_id::{FileId, InodeAttributes};
use super::outcome::Outcome;
use crate::user::files::former_name::is_backup;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use understudy_formats::private_directories::open_own;
use understudy_numbers::Epoch;
use xxhash_rust::xxh3::xxh3_64;

/// Extension of a log while it is rewritten without records that are no longer needed.
pub const REWRITTEN: &str = "undo-new";

const MAGIC: &[u8; 12] = b"understudy\0U";
const VERSION: u32 = 7;
/// Length of magic and version.
const HEADER: u64 = 16;
/// Number of bytes in front of each line: its length and its checksum.
const FRAME: usize = 12;

/// Effect in the log.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Record {
    /// Number of the cut that the effect follows.
    pub section: Epoch,
    /// Time in nanoseconds, which orders the records of the ranks whose logs are undone together.
    ///
    /// The time is since the node's start, or since 1970 if the job's logs are on disk.
    pub time: u64,
    /// Identities of the directories that contain the effect's names, in the order of the names.
    pub directories: Vec<FileId>,
    pub effect: Effect,
}

impl Record {
    /// Creates the record of an effect that is about to happen.
    pub fn new(section: Epoch, time: u64, mut effect: Effect) -> Record {
        let directories = effect.paths().into_iter().map(|path| directory_of(path));
        Record {
            section,
            time,
            directories: directories.collect(),
            effect,
        }
    }
}

/// Line of the log.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum LogLine {
    Record(Record),
    /// Outcome of the latest record that creates this name.
    Outcome(PathBuf, Outcome),
    /// The effect of the last record is undone.
    Undone,
}

impl LogLine {
    fn framed(&self) -> Vec<u8> {
        let content = bincode::encode_to_vec(self, bincode::config::standard()).unwrap_or_default();
        let mut bytes = Vec::with_capacity(FRAME + content.len());
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(xxh3_64(&content).to_le_bytes());
        bytes.extend(content);
        bytes
    }
}

fn header() -> Vec<u8> {
    [MAGIC.as_slice(), &VERSION.to_le_bytes()].concat()
}

/// Parses the first line of `bytes`; `None` if it is incomplete. Also returns its length.
fn first_line(bytes: &[u8]) -> Option<(LogLine, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<8>()?;
    let content = rest.get(..u32::from_le_bytes(*length) as usize)?;
    if xxh3_64(content) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let (line, _) = bincode::decode_from_slice(content, bincode::config::standard()).ok()?;
    Some((line, FRAME + content.len()))
}

/// Returns all possible names of a file after `moves`, of which some may have failed.
///
/// The file was at `path` before the moves. Each move (old and new name) is that of the file or of
/// a directory above it; the last move comes first in the list.
fn possible_names(path: &Path, moves: &[(&Path, &Path)]) -> Vec<PathBuf> {
    let mut names = vec![path.to_owned()];
    for (from, to) in moves.iter().rev() {
        let below = names.iter().filter_map(|name| name.strip_prefix(from).ok());
        // Joining an empty path would add a slash, as for a directory.
        let moved = |below: &Path| match below.as_os_str().is_empty() {
            true => to.to_path_buf(),
            false => to.join(below),
        };
        let mut new: Vec<PathBuf> = below.map(moved).collect();
        new.retain(|name| !names.contains(name));
        names.append(&mut new);
    }
    names
}

/// Log of a rank, as read by any process.
#[derive(Debug)]
pub struct UndoLog {
    file: File,
    path: PathBuf,
    records: Vec<LoggedRecord>,
    /// Offset of the end of the last complete line.
    end: u64,
}

/// Record with its position in the file and its outcome.
#[derive(Clone, Debug)]
pub struct LoggedRecord {
    offset: u64,
    pub record: Record,
    /// File that the effect has created, if known.
    pub outcome: Option<Outcome>,
    /// Smallest index of the records whose outcomes follow this record in the file.
    ///
    /// The index is valid while this record is the last one; `usize::MAX` if no outcome follows.
    first_outcome: usize,
}

impl UndoLog {
    /// Creates the log of this process; replaces a log that an ended process has left.
    pub fn create(path: &Path) -> io::Result<UndoLog> {
        let create = || {
            open_own(
                path,
                libc::O_RDWR | libc::O_APPEND | libc::O_CREAT | libc::O_EXCL,
            )
        };
        let mut file = match create() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Some(left) = UndoLog::open(path)?
                    && left.is_abandoned()
                {
                    left.remove()?;
                }
                create()?
            }
            other => other?,
        };
        file.lock()?;
        file.write_all(&header())?;
        Ok(UndoLog {
            file,
            path: path.to_owned(),
            records: Vec::new(),
            end: HEADER,
        })
    }

    /// Opens the log of any rank.
    ///
    /// `None` if the log is absent or belongs to another user, or if the file is not a log.
    pub fn open(path: &Path) -> io::Result<Option<UndoLog>> {
        let file = match open_own(path, libc::O_RDWR | libc::O_APPEND) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                return Ok(None);
            }
            other => other?,
        };
        // The owner may have failed before it had written the whole header.
        let mut start = Vec::new();
        (&file).take(HEADER).read_to_end(&mut start)?;
        if !header().starts_with(&start) {
            return Ok(None);
        }
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let mut log = UndoLog {
            file,
            path: path.to_owned(),
            records: Vec::new(),
            end: HEADER,
        };
        log.parse(&bytes);
        Ok(Some(log))
    }

    fn parse(&mut self, bytes: &[u8]) {
        self.records.clear();
        let mut offset = HEADER as usize;
        while let Some((line, length)) = bytes.get(offset..).and_then(first_line) {
            self.add(offset as u64, length, line);
            offset += length;
        }
        self.end = offset as u64;
    }

    /// Adds a line that is stored at this offset with this length.
    fn add(&mut self, offset: u64, length: usize, line: LogLine) {
        self.end = offset + length as u64;
        match line {
            LogLine::Record(record) => self.records.push(LoggedRecord {
                offset,
                record,
                outcome: None,
                first_outcome: usize::MAX,
            }),
            LogLine::Outcome(created, outcome) => {
                if let Some(index) = self.creator_of(&created) {
                    self.records[index].outcome = Some(outcome);
                    self.note_outcome_at_end(index);
                }
            }
            LogLine::Undone => drop(self.remove_last()),
        }
    }

    /// Notes that an outcome of the record with this index follows the last record.
    fn note_outcome_at_end(&mut self, index: usize) {
        if let Some(last) = self.records.last_mut() {
            last.first_outcome = last.first_outcome.min(index);
        }
    }

    /// Removes the last record from memory.
    fn remove_last(&mut self) -> Option<LoggedRecord> {
        let removed = self.records.pop()?;
        self.note_outcome_at_end(removed.first_outcome);
        Some(removed)
    }

    /// Returns the index of the latest record that creates this name.
    fn creator_of(&self, name: &Path) -> Option<usize> {
        self.records
            .iter()
            .rposition(|logged| logged.record.effect.created_name() == Some(name))
    }

    /// Returns the outcome of the latest record that creates this name.
    pub fn outcome_of(&self, name: &Path) -> Option<Outcome> {
        self.records.get(self.creator_of(name)?)?.outcome
    }

    /// True if a record creates this name.
    pub fn creates_name(&self, name: &Path) -> bool {
        self.creator_of(name).is_some()
    }

    /// Reads the log again, because another process may have changed it.
    pub fn reload(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; self.file.metadata()?.len() as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        self.parse(&bytes);
        Ok(())
    }

    pub fn append(&mut self, line: LogLine) -> io::Result<()> {
        let bytes = line.framed();
        let at = self.file.metadata()?.len();
        let written = self.file.write(&bytes)?;
        if written != bytes.len() {
            self.file.set_len(at)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.add(at, written, line);
        Ok(())
    }

    /// Writes a record with its outcome.
    pub fn append_with_outcome(&mut self, logged: LoggedRecord) -> io::Result<()> {
        let outcome = logged.record.effect.created_name().map(Path::to_owned);
        let outcome = outcome.zip(logged.outcome);
        self.append(LogLine::Record(logged.record))?;
        outcome.map_or(Ok(()), |(name, outcome)| {
            self.append(LogLine::Outcome(name, outcome))
        })
    }

    pub fn last(&self) -> Option<&LoggedRecord> {
        self.records.last()
    }

    /// Lists all records with their outcomes.
    pub fn logged_records(&self) -> impl Iterator<Item = &LoggedRecord> {
        self.records.iter()
    }

    /// Removes the last record.
    pub fn pop(&mut self) -> io::Result<()> {
        let last = self.records.len().saturating_sub(1);
        let keeps_outcome = |logged: &LoggedRecord| logged.first_outcome < last;
        if self.last().is_some_and(keeps_outcome) {
            // Removes an incomplete line at the end, because no line after it would be read.
            self.file.set_len(self.end)?;
            // Without space for the line, the record is removed in spite of the outcome, which only
            // the repetition of an interrupted undo needs.
            if self.append(LogLine::Undone).is_ok() {
                return Ok(());
            }
        }
        match self.remove_last() {
            Some(logged) => {
                self.end = logged.offset;
                self.file.set_len(logged.offset)
            }
            None => Ok(()),
        }
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().map(|logged| &logged.record)
    }

    /// Removes all sections before `first`, and their backups.
    pub fn forget_before(&mut self, first: Epoch) -> io::Result<()> {
        let count = self
            .records()
            .take_while(|record| record.section < first)
            .count();
        if count == 0 {
            return Ok(());
        }
        self.remove_backups(count);
        let kept: Vec<LoggedRecord> = self.logged_records().skip(count).cloned().collect();
        if kept.is_empty() {
            self.records.clear();
            self.end = HEADER;
            return self.file.set_len(HEADER);
        }
        let mut next = UndoLog::create(&self.path.with_extension(REWRITTEN))?;
        for logged in kept {
            next.append_with_outcome(logged)?;
        }
        std::fs::rename(&next.path, &self.path)?;
        next.path.clone_from(&self.path);
        *self = next;
        Ok(())
    }

    /// Removes the backups of the first `count` records.
    fn remove_backups(&self, count: usize) {
        // A backup may have been moved after its record was written: with its directory, or out of
        // a directory that was removed. So the records are examined from the last one on, and
        // `moves` contains all moves after the examined record.
        let mut moves: Vec<(&Path, &Path)> = Vec::new();
        for (index, logged) in self.records.iter().enumerate().rev() {
            let record = &logged.record;
            match &record.effect {
                Effect::Renamed {
                    from,
                    to,
                    directory,
                    ..
                } if *directory || is_backup(to) => moves.push((from, to)),
                Effect::Exchanged { from, to, .. } => {
                    moves.extend([(from.as_path(), to.as_path()), (to, from)])
                }
                _ => {}
            }
            if let (Some(backup), true) = (record.effect.backup(), index < count) {
                for name in possible_names(backup, &moves) {
                    let _ = std::fs::remove_file(name);
                }
            }
        }
    }

    /// True if the process that wrote the log has ended.
    pub fn is_abandoned(&self) -> bool {
        self.file.try_lock().is_ok()
    }

    /// Unlocks the log, as the end of the log's process does.
    ///
    /// Children that other tests have forked may still have the log's descriptor.
    #[cfg(test)]
    pub fn unlock(self) {
        self.file.unlock().expect("it was locked");
    }

    /// Removes the log and its backups, if another process has not removed them already.
    pub fn remove(self) -> io::Result<()> {
        self.remove_backups(self.records.len());
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}
