//! The undo log: one file per rank in memory (tmpfs), which outlives the rank if it is killed.
//!
//! ```text
//!   magic, version │ length u32, checksum u64, line │ length, checksum, line │ …
//! ```
//!
//! A record is written by one write(2), before its backup is made and before the effect that it is
//! about happens. A torn record at the end means that the rank died in that write, so the effect
//! has not happened. The owner holds a lock (flock(2)) as long as it lives.
//!
//! Outcomes ([`super::outcome`]) lie between the records. They go with whatever is before them.

use super::anchor::directory_of;
pub use super::file_id::{Attributes, Id};
use super::outcome::Outcome;
use crate::user::files::former_name::is_backup;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use understudy_formats::private::open_own;
use understudy_numbers::Epoch;
use xxhash_rust::xxh3::xxh3_64;

/// What a log is called while it is written anew without the records that nobody needs any more.
pub const RENEWED: &str = "undo-new";

const MAGIC: &[u8; 12] = b"understudy\0U";
const VERSION: u32 = 6;
const HEADER: u64 = 16;
const FRAME: usize = 12;

/// An effect, with what is needed to undo it. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Effect {
    /// The name is new.
    Created { path: PathBuf },
    /// The file may grow.
    Grown { path: PathBuf, id: Id, size: u64 },
    /// Bytes of the file may change; all of them are in `backup`, once it has this size.
    Changed {
        path: PathBuf,
        id: Id,
        size: u64,
        backup: PathBuf,
    },
    /// Ranges of the file are overwritten; their old bytes are here, one after the other, or in
    /// `backup` from `place` on, once it has so many. Several may be kept in one.
    Overwritten {
        path: PathBuf,
        id: Id,
        ranges: Vec<(u64, u64)>,
        bytes: Vec<u8>,
        backup: Option<PathBuf>,
        place: u64,
    },
    /// The name goes away; the file is still at `backup`.
    Removed {
        path: PathBuf,
        id: Id,
        backup: PathBuf,
    },
    /// A directory goes away.
    RemovedDirectory { path: PathBuf, id: Id, mode: u32 },
    /// The file gets another name.
    Renamed {
        from: PathBuf,
        to: PathBuf,
        id: Id,
        directory: bool,
    },
    /// Two files change places; `id` was at `from`.
    Exchanged { from: PathBuf, to: PathBuf, id: Id },
    /// Mode, owner and times may change.
    Attributes {
        path: PathBuf,
        id: Id,
        attributes: Attributes,
    },
    /// An extended attribute may change.
    Extended {
        path: PathBuf,
        id: Id,
        name: Vec<u8>,
        value: Option<Vec<u8>>,
    },
    /// A System V object is new ([`understudy_abi::system_v`]).
    Object {
        kind: i64,
        identifier: i32,
        namespace: u64,
    },
    /// The name of a POSIX message queue is new.
    Queue {
        name: Vec<u8>,
        inode: u64,
        namespace: u64,
    },
}

impl Effect {
    /// Where something is kept for it, and for nothing that was done before.
    pub fn backup(&self) -> Option<&Path> {
        match self {
            Effect::Changed { backup, .. } | Effect::Removed { backup, .. } => Some(backup),
            Effect::Overwritten {
                backup, place: 0, ..
            } => backup.as_deref(),
            // A backup that had to be moved.
            Effect::Renamed { to, .. } if is_backup(to) => Some(to),
            _ => None,
        }
    }
}

impl Effect {
    /// Returns the names that the effect is about, its backup last.
    pub fn paths(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Effect::Created { path }
            | Effect::Grown { path, .. }
            | Effect::Attributes { path, .. }
            | Effect::Extended { path, .. }
            | Effect::RemovedDirectory { path, .. } => vec![path],
            Effect::Changed { path, backup, .. } | Effect::Removed { path, backup, .. } => {
                vec![path, backup]
            }
            Effect::Overwritten { path, backup, .. } => {
                std::iter::once(path).chain(backup.as_mut()).collect()
            }
            Effect::Renamed { from, to, .. } | Effect::Exchanged { from, to, .. } => {
                vec![from, to]
            }
            Effect::Object { .. } | Effect::Queue { .. } => Vec::new(),
        }
    }

    /// Returns the name that the effect makes: a new one, or that of its backup.
    pub fn made(&self) -> Option<&Path> {
        match self {
            Effect::Created { path } => Some(path),
            Effect::Changed { backup, .. } | Effect::Removed { backup, .. } => Some(backup),
            Effect::Overwritten { backup, .. } => backup.as_deref(),
            _ => None,
        }
    }

    /// The device's number may have changed since, by a reboot or on another node; the file's own
    /// has not.
    pub fn renumber_device(&mut self) {
        let (path, id) = match self {
            Effect::Created { .. } | Effect::Object { .. } | Effect::Queue { .. } => return,
            Effect::Grown { path, id, .. }
            | Effect::Changed { path, id, .. }
            | Effect::Overwritten { path, id, .. }
            | Effect::Removed { path, id, .. }
            | Effect::Attributes { path, id, .. }
            | Effect::Extended { path, id, .. }
            | Effect::RemovedDirectory { path, id, .. } => (path, id),
            Effect::Renamed { to, id, .. } | Effect::Exchanged { to, id, .. } => (to, id),
        };
        if let Ok(metadata) = std::fs::symlink_metadata(path)
            && id.is_of(&metadata)
        {
            *id = Id::of(&metadata);
        }
    }
}

/// An effect in the log.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Record {
    /// Number of the cut that the effect followed.
    pub section: Epoch,
    /// The node's clock since its start, which brings the records of all its ranks into one order.
    pub time: u64,
    /// The directories that the effect's names are in.
    pub directories: Vec<Id>,
    /// What is about to happen.
    pub effect: Effect,
}

impl Record {
    /// An effect that is about to happen.
    pub fn new(section: Epoch, time: u64, mut effect: Effect) -> Record {
        let directories = effect.paths().into_iter().map(|it| directory_of(it));
        Record {
            section,
            time,
            directories: directories.collect(),
            effect,
        }
    }
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub enum Line {
    Record(Record),
    /// The file that the latest record about making this name has led to.
    Outcome(PathBuf, Outcome),
}

impl Line {
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

/// The first line in `bytes` and its length; `None` if there is no whole one.
fn first_line(bytes: &[u8]) -> Option<(Line, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<8>()?;
    let content = rest.get(..u32::from_le_bytes(*length) as usize)?;
    if xxh3_64(content) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let (line, _) = bincode::decode_from_slice(content, bincode::config::standard()).ok()?;
    Some((line, FRAME + content.len()))
}

/// Where a file may be that was at `path` before these moves (the last one first), of itself or of
/// directories that it was in: some may have failed.
fn places(path: &Path, moves: &[(&Path, &Path)]) -> Vec<PathBuf> {
    let mut places = vec![path.to_owned()];
    for (from, to) in moves.iter().rev() {
        let below = places
            .iter()
            .filter_map(|place| place.strip_prefix(from).ok());
        // Joining nothing would add a slash, as if it were a directory.
        let moved = |below: &Path| match below.as_os_str().is_empty() {
            true => to.to_path_buf(),
            false => to.join(below),
        };
        let mut new: Vec<PathBuf> = below.map(moved).collect();
        new.retain(|place| !places.contains(place));
        places.append(&mut new);
    }
    places
}

/// The log of a rank, by whoever reads it.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    records: Vec<Noted>,
}

/// A record, with its place in the file.
#[derive(Clone, Debug)]
pub struct Noted {
    at: u64,
    pub record: Record,
    /// File that the effect has made, if that is known.
    pub outcome: Option<Outcome>,
}

impl Log {
    /// Makes the log of this process. One that is left from a process that is no more is replaced.
    pub fn create(path: &Path) -> io::Result<Log> {
        let create = || {
            open_own(
                path,
                libc::O_RDWR | libc::O_APPEND | libc::O_CREAT | libc::O_EXCL,
            )
        };
        let mut file = match create() {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Some(left) = Log::open(path)?
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
        Ok(Log {
            file,
            path: path.to_owned(),
            records: Vec::new(),
        })
    }

    /// Opens the log of any rank; `None` if there is none. What another user has put there is no
    /// log.
    pub fn open(path: &Path) -> io::Result<Option<Log>> {
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
        // Its owner may have died before it had written the whole header.
        let mut start = Vec::new();
        (&file).take(HEADER).read_to_end(&mut start)?;
        if !header().starts_with(&start) {
            return Ok(None);
        }
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let mut log = Log {
            file,
            path: path.to_owned(),
            records: Vec::new(),
        };
        log.parse(&bytes);
        Ok(Some(log))
    }

    fn parse(&mut self, bytes: &[u8]) {
        self.records.clear();
        let mut at = HEADER as usize;
        while let Some((line, length)) = bytes.get(at..).and_then(first_line) {
            self.add(at as u64, line);
            at += length;
        }
    }

    fn add(&mut self, at: u64, line: Line) {
        match line {
            Line::Record(record) => self.records.push(Noted {
                at,
                record,
                outcome: None,
            }),
            Line::Outcome(made, outcome) => {
                if let Some(noted) = self.making(&made).and_then(|it| self.records.get_mut(it)) {
                    noted.outcome = Some(outcome);
                }
            }
        }
    }

    fn making(&self, made: &Path) -> Option<usize> {
        self.records
            .iter()
            .rposition(|noted| noted.record.effect.made() == Some(made))
    }

    /// Returns what the latest record about making this name has led to.
    pub fn outcome_of(&self, made: &Path) -> Option<Outcome> {
        self.records.get(self.making(made)?)?.outcome
    }

    /// Returns true if a record is about making this name.
    pub fn makes(&self, made: &Path) -> bool {
        self.making(made).is_some()
    }

    /// Reads what another process may have changed.
    pub fn reload(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; self.file.metadata()?.len() as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        self.parse(&bytes);
        Ok(())
    }

    pub fn append(&mut self, line: Line) -> io::Result<()> {
        let bytes = line.framed();
        let at = self.file.metadata()?.len();
        let written = self.file.write(&bytes)?;
        if written != bytes.len() {
            self.file.set_len(at)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.add(at, line);
        Ok(())
    }

    /// Writes a record with its outcome.
    pub fn append_noted(&mut self, noted: Noted) -> io::Result<()> {
        let outcome = noted.record.effect.made().map(Path::to_owned);
        let outcome = outcome.zip(noted.outcome);
        self.append(Line::Record(noted.record))?;
        outcome.map_or(Ok(()), |(made, outcome)| {
            self.append(Line::Outcome(made, outcome))
        })
    }

    pub fn last(&self) -> Option<&Noted> {
        self.records.last()
    }

    /// All records with their outcomes.
    pub fn noted(&self) -> impl Iterator<Item = &Noted> {
        self.records.iter()
    }

    /// Takes the last record away.
    pub fn pop(&mut self) -> io::Result<()> {
        match self.records.pop() {
            Some(noted) => self.file.set_len(noted.at),
            None => Ok(()),
        }
    }

    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().map(|noted| &noted.record)
    }

    /// Forgets all sections before `first`, and what was kept for them.
    pub fn forget_before(&mut self, first: Epoch) -> io::Result<()> {
        let count = self
            .records()
            .take_while(|record| record.section < first)
            .count();
        if count == 0 {
            return Ok(());
        }
        self.remove_backups(count);
        let kept: Vec<Noted> = self.noted().skip(count).cloned().collect();
        if kept.is_empty() {
            self.records.clear();
            return self.file.set_len(HEADER);
        }
        let mut next = Log::create(&self.path.with_extension(RENEWED))?;
        for noted in kept {
            next.append_noted(noted)?;
        }
        std::fs::rename(&next.path, &self.path)?;
        next.path.clone_from(&self.path);
        *self = next;
        Ok(())
    }

    /// Removes what is kept for the first `count` records.
    fn remove_backups(&self, count: usize) {
        // From the last record on, so that the moves that follow a record are known: those of
        // directories, and those of backups out of directories that went away. If such a move is
        // undone later, nobody knows the backup any more.
        let mut moves: Vec<(&Path, &Path)> = Vec::new();
        for (index, noted) in self.records.iter().enumerate().rev() {
            let record = &noted.record;
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
                for place in places(backup, &moves) {
                    let _ = std::fs::remove_file(place);
                }
            }
        }
    }

    /// Whether the process that wrote it is no more.
    pub fn is_abandoned(&self) -> bool {
        self.file.try_lock().is_ok()
    }

    /// As the end of its process does, though children that other tests have forked may have the
    /// descriptor still.
    #[cfg(test)]
    pub fn unlock(self) {
        self.file.unlock().expect("it was locked");
    }

    /// Removes the log and its backups; another process may have done so.
    pub fn remove(self) -> io::Result<()> {
        self.remove_backups(self.records.len());
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}
