//! The undo log: one file per rank in memory (tmpfs), which outlives the rank if it is killed.
//!
//! ```text
//!   magic, version │ length u32, checksum u64, record │ length, checksum, record │ …
//! ```
//!
//! A record is written by one write(2), before its backup is made and before the effect that it is about happens. A torn
//! record at the end means that the rank died in that write, so the effect has not happened. The owner holds a lock (flock(2)) as long as it lives.

use crate::user::files::is_backup;
use ckptd::private::open_own;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use understudy_numbers::Epoch;
use xxhash_rust::xxh3::xxh3_64;

/// What a log is called while it is written anew without the records that nobody needs any more.
pub const RENEWED: &str = "undo-new";

const MAGIC: &[u8; 12] = b"understudy\0U";
const VERSION: u32 = 4;
const HEADER: u64 = 16;
const FRAME: usize = 12;

/// A file, whatever its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, bincode::Encode, bincode::Decode)]
pub struct Id {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

impl Id {
    /// The file that `metadata` is about.
    pub fn of(metadata: &std::fs::Metadata) -> Id {
        Id {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Mode, owner and times of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Attributes {
    /// Permissions, with the bits of set-user-ID and the like.
    pub mode: u32,
    /// User.
    pub owner: u32,
    /// Group.
    pub group: u32,
    /// Seconds and nanoseconds of the last access and the last modification.
    pub times: [(i64, i64); 2],
}

impl Attributes {
    /// Returns those of a file.
    pub fn of(metadata: &std::fs::Metadata) -> Attributes {
        Attributes {
            mode: metadata.permissions().mode() & 0o7777,
            owner: metadata.uid(),
            group: metadata.gid(),
            times: [
                (metadata.atime(), metadata.atime_nsec()),
                (metadata.mtime(), metadata.mtime_nsec()),
            ],
        }
    }
}

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
    /// Ranges of the file are overwritten; their old bytes are here, one after the other, or in `backup` from `place` on, once it has
    /// so many. Several may be kept in one.
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
    /// The device's number may have changed since, by a reboot or on another node; the file's own has not.
    pub fn renumber_device(&mut self) {
        let (path, id) = match self {
            Effect::Created { .. } => return,
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
            && metadata.ino() == id.inode
        {
            id.device = metadata.dev();
        }
    }
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Record {
    /// Number of the cut that the effect followed.
    pub section: Epoch,
    /// The node's clock since its start, which brings the records of all its ranks into one order.
    pub time: u64,
    /// What is about to happen.
    pub effect: Effect,
}

impl Record {
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

/// The first record in `bytes` and its length; `None` if there is no whole one.
fn first_record(bytes: &[u8]) -> Option<(Record, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<8>()?;
    let content = rest.get(..u32::from_le_bytes(*length) as usize)?;
    if xxh3_64(content) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let (record, _) = bincode::decode_from_slice(content, bincode::config::standard()).ok()?;
    Some((record, FRAME + content.len()))
}

/// Where a file may be that was at `path` before these moves (the last one first), of itself or of directories that it
/// was in: some may have failed.
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
    /// Each record with its place in the file.
    records: Vec<(u64, Record)>,
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

    /// Opens the log of any rank; `None` if there is none. What another user has put there is no log.
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
        while let Some((record, length)) = bytes.get(at..).and_then(first_record) {
            self.records.push((at as u64, record));
            at += length;
        }
    }

    /// Reads what another process may have changed.
    pub fn reload(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; self.file.metadata()?.len() as usize];
        self.file.read_exact_at(&mut bytes, 0)?;
        self.parse(&bytes);
        Ok(())
    }

    /// Writes a record.
    pub fn append(&mut self, record: Record) -> io::Result<()> {
        let bytes = record.framed();
        let at = self.file.metadata()?.len();
        let written = self.file.write(&bytes)?;
        if written != bytes.len() {
            self.file.set_len(at)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.records.push((at, record));
        Ok(())
    }

    /// The last record.
    pub fn last(&self) -> Option<&Record> {
        self.records.last().map(|(_, record)| record)
    }

    /// Takes the last record away.
    pub fn pop(&mut self) -> io::Result<()> {
        match self.records.pop() {
            Some((at, _)) => self.file.set_len(at),
            None => Ok(()),
        }
    }

    /// All records.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().map(|(_, record)| record)
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
        let kept: Vec<Record> = self.records().skip(count).cloned().collect();
        if kept.is_empty() {
            self.records.clear();
            return self.file.set_len(HEADER);
        }
        let mut next = Log::create(&self.path.with_extension(RENEWED))?;
        for record in kept {
            next.append(record)?;
        }
        std::fs::rename(&next.path, &self.path)?;
        next.path.clone_from(&self.path);
        *self = next;
        Ok(())
    }

    /// Removes what is kept for the first `count` records.
    fn remove_backups(&self, count: usize) {
        // From the last record on, so that the moves that follow a record are known: those of directories, and those of
        // backups out of directories that went away. If such a move is undone later, nobody knows the backup any more.
        let mut moves: Vec<(&Path, &Path)> = Vec::new();
        for (index, (_, record)) in self.records.iter().enumerate().rev() {
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

    /// As the end of its process does, though children that other tests have forked may have the descriptor still.
    #[cfg(test)]
    pub fn unlock(self) {
        self.file.unlock().expect("it was locked");
    }

    /// Removes the log and all that is kept for it.
    pub fn remove(self) -> io::Result<()> {
        self.remove_backups(self.records.len());
        std::fs::remove_file(&self.path)
    }
}
