//! Conversion of the program's calls to undo records, which are written before the call.

use super::file_call::{FileCall, metadata_of};
use super::keeper::{self, BackupStore};
use super::log_location::MOVED;
use super::outcome::Outcome;
use super::undo_log::{Effect, FileId, LogLine, Record, UndoLog};
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fmt::Display;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use understudy_catalogue::message;
use understudy_formats::events::{monotonic_ns, realtime_ns};
use understudy_formats::private_directories::in_memory;
use understudy_numbers::Epoch;
use understudy_policy::ranges::ByteRanges;

/// Largest part of a file in bytes that is backed up for a mapping.
///
/// The program may overwrite the file through the mapping.
pub(super) const MAX_OVERWRITTEN: u64 = 64 << 20;
/// Largest size in bytes that is backed up because the program truncates a file.
///
/// The size is that of the file, or with ftruncate(2) that of the part that is cut off.
pub(super) const MAX_TRUNCATED: u64 = 1 << 30;

/// Extent to which a file has been recorded in this section.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Recorded {
    /// Only the size: the file may grow, and overwritten ranges are recorded one by one.
    Size,
    /// The whole content, or the file is new: no further record is needed.
    Content,
}

/// Recorder of the effects of one process.
pub struct Recorder {
    /// Path of the log.
    path: PathBuf,
    pub(super) keeper: BackupStore,
    pub(super) log: Option<UndoLog>,
    section: Epoch,
    /// Start of the section. Times of files may be a few milliseconds behind the clock.
    section_start: SystemTime,
    /// Path at which the log continues if its file cannot be written.
    fallback: Option<PathBuf>,
    /// Clock that all ranks whose logs are undone together share, in nanoseconds.
    clock: fn() -> u64,
    /// Names created since the cut.
    ///
    /// Files of these names need no records, unless they were replaced.
    pub(super) created: HashSet<PathBuf>,
    /// Files that have been recorded since the cut.
    pub(super) recorded: HashMap<FileId, Recorded>,
    /// Ranges of files whose old bytes have been recorded since the cut.
    pub(super) overwritten: HashMap<FileId, ByteRanges>,
    /// Backups to which overwritten bytes of a file are appended, and their lengths.
    pub(super) pools: HashMap<FileId, (PathBuf, u64)>,
    /// Names in this section for the backups of open files whose own names were removed.
    pub(super) links: HashMap<FileId, PathBuf>,
    /// Files whose attributes have been recorded since the cut.
    pub(super) attributed: HashSet<FileId>,
    pub(super) extended: HashSet<(FileId, CString)>,
    /// Number of old bytes in the log.
    pub(super) in_log: u64,
    /// Names that calls are about to create, with their threads.
    pub(super) awaited: Vec<(libc::pid_t, PathBuf)>,
    warned: bool,
    process: u32,
    /// Thread of another process that makes the calls; `None` for the calling thread.
    pub(super) thread: Option<libc::pid_t>,
}

impl Recorder {
    /// Creates a recorder that does not record yet.
    ///
    /// The log will be at `path`, and small backups in the directory `memory`. `label` must be
    /// unique in the job.
    pub fn new(path: PathBuf, memory: &Path, job: &str, label: &dyn Display) -> Recorder {
        Recorder {
            path,
            keeper: BackupStore::new(memory, job, label),
            log: None,
            section: Epoch::NONE,
            section_start: SystemTime::now(),
            fallback: None,
            clock: monotonic_ns,
            created: HashSet::new(),
            recorded: HashMap::new(),
            overwritten: HashMap::new(),
            pools: HashMap::new(),
            links: HashMap::new(),
            attributed: HashSet::new(),
            extended: HashSet::new(),
            in_log: 0,
            awaited: Vec::new(),
            warned: false,
            process: std::process::id(),
            thread: None,
        }
    }

    /// Creates the log at once, for a log on disk ([`Recorder::on_disk`]).
    pub fn lasting(mut self, fallback: PathBuf) -> io::Result<Recorder> {
        self.log = Some(UndoLog::create(&self.path)?);
        Ok(self.on_disk(fallback))
    }

    /// Configures a log that other nodes may read.
    ///
    /// The times are since 1970, which all nodes share. The log can continue at the path
    /// `fallback`.
    pub fn on_disk(mut self, fallback: PathBuf) -> Recorder {
        (self.fallback, self.clock) = (Some(fallback), realtime_ns);
        self
    }

    /// Returns the path of the log.
    pub fn log_path(&self) -> &Path {
        &self.path
    }

    /// True if the log has records.
    pub fn has_records(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.last().is_some())
    }

    /// Starts a section after a cut. With [`Epoch::NONE`] no effects are recorded.
    pub fn begin(&mut self, section: Epoch) {
        self.section = section;
        self.section_start = SystemTime::now();
        self.created.clear();
        self.recorded.clear();
        self.overwritten.clear();
        self.pools.clear();
        self.links.clear();
        self.attributed.clear();
        self.extended.clear();
        self.in_log = 0;
        self.awaited.clear();
    }

    /// Returns the process whose effects are recorded.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// True if effects are recorded.
    pub fn is_on(&self) -> bool {
        self.section != Epoch::NONE
    }

    /// Discards sections before cut `first`, which are no longer needed.
    pub fn forget_before(&mut self, first: Epoch) -> io::Result<()> {
        self.log
            .as_mut()
            .map_or(Ok(()), |log| log.forget_before(first))
    }

    /// Continues in `section` after the log was undone, possibly by another process.
    pub fn resume(&mut self, section: Epoch) -> io::Result<()> {
        self.begin(section);
        self.log.as_mut().map_or(Ok(()), UndoLog::reload)
    }

    pub fn end(&mut self) -> io::Result<()> {
        self.begin(Epoch::NONE);
        self.log.take().map_or(Ok(()), UndoLog::remove)
    }

    /// Records the effects of `call`, which is about to be made.
    pub fn record_call(&mut self, call: &FileCall) -> io::Result<()> {
        match call {
            FileCall::Open { path, flags } => self.open(path, *flags),
            FileCall::Rename { from, to, flags } => self.rename(from, to, *flags),
            FileCall::Remove {
                path,
                files,
                directories,
            } => self.remove(path, *files, *directories),
            FileCall::Create { path, directory } => self.create(path, *directory),
            FileCall::Truncate { path, length } => self.truncate(path, *length),
        }
    }

    /// Writes the record of an effect.
    pub(super) fn write(&mut self, effect: Effect) -> io::Result<()> {
        let record = Record::new(self.section, (self.clock)(), effect);
        self.put(LogLine::Record(record))
    }

    pub(super) fn put(&mut self, line: LogLine) -> io::Result<()> {
        let appended = match &mut self.log {
            Some(log) => log.append(line.clone()),
            none => {
                UndoLog::create(&self.path).and_then(|log| none.insert(log).append(line.clone()))
            }
        };
        match (appended, self.fallback.take()) {
            (Err(_), Some(fallback)) => self.continue_at(fallback, line),
            (result, fallback) => {
                self.fallback = fallback;
                result
            }
        }
    }

    /// Copies the log to `fallback`, appends `line` to the copy, and continues with the copy.
    fn continue_at(&mut self, fallback: PathBuf, line: LogLine) -> io::Result<()> {
        let mut log = UndoLog::create(&fallback)?;
        for logged in self.log.iter().flat_map(UndoLog::logged_records) {
            log.append_with_outcome(logged.clone())?;
        }
        log.append(line)?;
        // A restarted job must not take the old file for the complete log.
        let _ = fs::rename(&self.path, self.path.with_extension(MOVED));
        self.log = Some(log);
        self.path = fallback;
        self.keeper.memory = in_memory();
        Ok(())
    }

    fn open(&mut self, path: &Path, flags: i32) -> io::Result<()> {
        let has = |flag: i32| flags & flag == flag;
        if has(libc::O_TMPFILE) || flags & libc::O_PATH != 0 {
            return Ok(());
        }
        let Some(metadata) = metadata_of(path) else {
            return if has(libc::O_CREAT) {
                self.created(path)
            } else {
                Ok(())
            };
        };
        if !metadata.is_file() || self.is_new(path, &metadata) || has(libc::O_CREAT | libc::O_EXCL)
        {
            return Ok(());
        }
        let access = flags & libc::O_ACCMODE;
        if has(libc::O_TRUNC) {
            self.content(path, &metadata, MAX_TRUNCATED)
        } else if access != libc::O_RDONLY {
            self.size(path, &metadata)
        } else {
            Ok(())
        }
    }

    /// True if this file was created since the cut.
    ///
    /// The name alone does not prove this, because another rank may have given this name to an old
    /// file. So the time of birth must be later than the cut. A file without a time of birth
    /// (statx(2)) counts as old.
    pub(super) fn is_new(&self, path: &Path, metadata: &Metadata) -> bool {
        self.created.contains(path)
            && metadata
                .created()
                .is_ok_and(|born| born > self.section_start)
    }

    /// Records that a file or directory is about to be created.
    fn created(&mut self, path: &Path) -> io::Result<()> {
        self.write(Effect::Created {
            path: path.to_owned(),
        })?;
        self.created.insert(path.to_owned());
        self.await_name(path);
        Ok(())
    }

    /// Records that the file may grow.
    pub(super) fn size(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let id = FileId::from_metadata(metadata);
        if self.recorded.contains_key(&id) {
            return Ok(());
        }
        self.attributes(path, metadata)?;
        self.write(Effect::Grown {
            path: path.to_owned(),
            id,
            size: metadata.len(),
        })?;
        self.recorded.insert(id, Recorded::Size);
        Ok(())
    }

    /// Records that the file's content may change.
    ///
    /// Creates a backup of files up to `limit` bytes.
    fn content(&mut self, path: &Path, metadata: &Metadata, limit: u64) -> io::Result<()> {
        let id = FileId::from_metadata(metadata);
        if self.recorded.get(&id) == Some(&Recorded::Content) {
            return Ok(());
        }
        if metadata.len() == 0 {
            return self.size(path, metadata);
        }
        if metadata.len() > limit {
            self.warn(path, "it is too large to be backed up");
            return self.size(path, metadata);
        }
        self.attributes(path, metadata)?;
        let size = metadata.len();
        let record = |backup: &Path| Effect::Changed {
            path: path.to_owned(),
            id,
            size,
            backup: backup.to_owned(),
        };
        let (memory, directory) = (self.keeper.memory.clone(), path.parent().unwrap_or(path));
        let make = |backup: &Path| keeper::copy(path, backup);
        if size > keeper::MAX_IN_MEMORY || self.create_backup(&memory, record, make).is_err() {
            self.create_backup(directory, record, make)?;
        }
        self.recorded.insert(id, Recorded::Content);
        Ok(())
    }

    /// Writes a record, and then creates its backup in `directory`.
    ///
    /// A backup without a record would never be removed.
    pub(super) fn create_backup(
        &mut self,
        directory: &Path,
        record: impl Fn(&Path) -> Effect,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let backup = self.keeper.name(directory);
        self.write(record(&backup))?;
        let made = make(&backup).and_then(|()| fs::symlink_metadata(&backup));
        match (made, &mut self.log) {
            (Ok(made), _) => self.record_outcome(&backup, Outcome::from_metadata(&made)),
            (Err(error), Some(log)) => {
                // Without a record no process removes the backup.
                let _ = fs::remove_file(&backup);
                log.pop()?;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    fn truncate(&mut self, path: &Path, length: i64) -> io::Result<()> {
        match metadata_of(path) {
            Some(metadata) if metadata.is_file() && !self.is_new(path, &metadata) => {
                if length < metadata.len() as i64 {
                    self.content(path, &metadata, MAX_TRUNCATED)
                } else {
                    self.size(path, &metadata)
                }
            }
            _ => Ok(()),
        }
    }

    fn create(&mut self, path: &Path, directory: bool) -> io::Result<()> {
        if metadata_of(path).is_some() {
            return Ok(());
        }
        if directory {
            return self.created(path);
        }
        // link(2) may give the new name to an old file, so the name is not recorded in `created`.
        self.write(Effect::Created {
            path: path.to_owned(),
        })?;
        self.await_name(path);
        Ok(())
    }

    /// Warns once, of the first file that cannot be restored.
    pub fn warn(&mut self, path: &Path, why: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            log::warn!("{}", message::file_content_not_kept(path.display(), why));
        }
    }
}
