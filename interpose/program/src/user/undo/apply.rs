//! Undo of recorded effects.

use super::anchor::Anchor;
use super::backup::{lost_backup, open_backup};
use super::file_call::exchange;
use super::file_id::another_file;
use super::inode;
use super::keeper::clone_or_copy;
use super::object;
use super::outcome::Outcome;
use super::overwrite::{self, BackupRange};
use super::undo_log::{Effect, FileId, LoggedRecord, UndoLog};
use std::collections::HashMap;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_numbers::Epoch;

/// Time limit for a directory to become empty: other processes may still remove entries.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(2);

/// Effect that could not be undone.
#[derive(Debug)]
pub struct UndoError {
    /// Path of the affected file.
    pub path: PathBuf,
    pub error: io::Error,
}

/// Undoes all sections from `first` on in all of `logs`, the latest effect first.
///
/// The undo may be interrupted at any point and repeated: a record is removed as soon as its effect
/// is undone, and undoing an effect a second time is harmless.
pub fn undo(logs: &mut [UndoLog], first: Epoch) -> Result<(), UndoError> {
    let mut recreated = RecreatedFiles::default();
    loop {
        let last_time = |log: &UndoLog| {
            let last = log.last().map(|last| &last.record);
            last.filter(|last| last.section >= first)
                .map(|last| last.time)
        };
        let latest = (0..logs.len()).max_by_key(|&log| last_time(&logs[log]));
        let Some(latest) = latest.filter(|&log| last_time(&logs[log]).is_some()) else {
            return Ok(());
        };
        let Some(mut logged) = logs[latest].last().cloned() else {
            return Ok(());
        };
        recreated.find(&mut logged, logs);
        logged.record.effect.renumber_device();
        log::debug!("undone: {:?}", logged.record.effect);
        let anchors = recreated.undo(&mut logged)?;
        logs[latest].pop().map_err(|error| UndoError {
            path: "the undo log".into(),
            error,
        })?;
        // The record refers to the backup, so the backup is removed after the record.
        if let Some(backup) = logged.record.effect.backup() {
            let _ = fs::remove_file(backup);
        }
        drop(anchors);
    }
}

/// Files that the undo has created again: current identities by former identities.
#[derive(Default)]
struct RecreatedFiles(HashMap<FileId, FileId>);

impl RecreatedFiles {
    /// Returns the current identity of a file.
    fn current(&self, id: &FileId) -> FileId {
        *self.0.get(&Self::key(id)).unwrap_or(id)
    }

    /// Returns `id` without the device, whose number differs in the records of another node.
    fn key(id: &FileId) -> FileId {
        FileId { device: 0, ..*id }
    }

    /// Finds the current name of a file that was written through a descriptor.
    ///
    /// The file may have been renamed or removed when it was written, or later by another rank. In
    /// this case another record, which is not undone yet, contains the current name.
    fn find(&self, logged: &mut LoggedRecord, logs: &[UndoLog]) {
        let record = &mut logged.record;
        let (Effect::Grown { path, id, .. }
        | Effect::Overwritten { path, id, .. }
        | Effect::Attributes { path, id, .. }
        | Effect::Extended { path, id, .. }) = &mut record.effect
        else {
            return;
        };
        let current = self.current(id);
        let is_file = |path: &Path| {
            found(path).is_ok_and(|found| found.is_some_and(|found| current.is_of(&found)))
        };
        if is_file(path) {
            return;
        }
        let names =
            logs.iter()
                .flat_map(UndoLog::records)
                .filter_map(|record| match &record.effect {
                    Effect::Removed {
                        id: other, backup, ..
                    } if other == id => Some((backup, record)),
                    Effect::Renamed { to, id: other, .. } if other == id => Some((to, record)),
                    _ => None,
                });
        if let Some((name, source)) = names.into_iter().find(|(name, _)| is_file(name)) {
            path.clone_from(name);
            // Both kinds of effects, removals and renames, have the current name as their second
            // name.
            if let (Some(directory), Some(current)) =
                (record.directories.first_mut(), source.directories.get(1))
            {
                *directory = *current;
            }
        }
    }

    /// Undoes an effect, and replaces its names by paths through open directories.
    ///
    /// Returns the anchors, which keep the directories open.
    fn undo(&mut self, logged: &mut LoggedRecord) -> Result<Vec<Anchor>, UndoError> {
        let record = &mut logged.record;
        let mut anchors = Vec::new();
        let subject = record.effect.paths().first().map(|path| path.to_path_buf());
        let failed = |error| UndoError {
            path: subject.clone().unwrap_or_default(),
            error,
        };
        for (path, directory) in record.effect.paths().into_iter().zip(&record.directories) {
            let anchor = Anchor::new(path, self.current(directory)).map_err(failed)?;
            anchor.path().clone_into(path);
            anchors.push(anchor);
        }
        self.undo_anchored(&record.effect, logged.outcome)
            .map_err(failed)?;
        Ok(anchors)
    }

    fn undo_anchored(&mut self, effect: &Effect, outcome: Option<Outcome>) -> io::Result<()> {
        let current = |id: &FileId| self.current(id);
        let result = match effect {
            Effect::Created { path } => self.remove_created(path, outcome),
            Effect::Grown { path, id, size } => shrink(path, current(id), *size),
            Effect::Changed {
                path,
                id,
                size,
                backup,
            } => refill(path, current(id), *size, backup, outcome),
            Effect::Overwritten {
                path,
                id,
                ranges,
                bytes,
                backup,
                backup_offset,
            } => {
                let backup = backup.as_deref().map(|path| BackupRange {
                    path,
                    offset: *backup_offset,
                    outcome,
                });
                overwrite::restore_ranges(path, current(id), ranges, bytes, backup)
            }
            Effect::Removed { path, id, backup } => restore_removed(path, *id, backup, outcome),
            Effect::RemovedDirectory { path, mode, .. } => make_directory(path, *mode),
            Effect::Renamed { from, to, id, .. } => rename_back(from, to, current(id)),
            Effect::Attributes {
                path,
                id,
                attributes,
            } => inode::restore_attributes(path, current(id), attributes),
            Effect::Extended {
                path,
                id,
                name,
                value,
            } => inode::restore_extended(path, current(id), name, value.as_deref()),
            Effect::Exchanged { from, to, id } => exchange_back(from, to, current(id)),
            Effect::Object {
                kind,
                identifier,
                namespace,
            } => object::remove(*kind, *identifier, *namespace),
            Effect::Queue {
                name,
                inode,
                namespace,
            } => object::remove_queue(name, *inode, *namespace),
        };
        if let Effect::Changed { path, id, .. }
        | Effect::Removed { path, id, .. }
        | Effect::RemovedDirectory { path, id, .. } = effect
            && let Ok(Some(metadata)) = found(path)
        {
            self.0
                .insert(Self::key(id), FileId::from_metadata(&metadata));
        }
        result
    }

    /// Removes a file that the program has created.
    ///
    /// # Errors
    /// Fails if another file has the name, unless no file of the program is expected there.
    fn remove_created(&self, path: &Path, outcome: Option<Outcome>) -> io::Result<()> {
        let Some(found) = found(path)? else {
            return Ok(());
        };
        let Some(outcome) = outcome else {
            return remove(path, &found);
        };
        if self.current(&outcome.id).is_of(&found) {
            return remove(path, &found);
        }
        match outcome.is_nothing() {
            true => Ok(()),
            false => Err(another_file()),
        }
    }
}

/// Returns the metadata of this name, if it exists.
fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn remove(path: &Path, metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_dir() {
        return ignore_missing(fs::remove_file(path));
    }
    let start = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                if start.elapsed() > EMPTY_TIMEOUT {
                    log::warn!(
                        "{}",
                        message::directory_left(
                            fs::canonicalize(path).unwrap_or_default().display()
                        )
                    );
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return ignore_missing(other),
        }
    }
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Truncates a file that has grown.
fn shrink(path: &Path, id: FileId, size: u64) -> io::Result<()> {
    match found(path)? {
        Some(metadata)
            if metadata.is_file()
                && FileId::from_metadata(&metadata) == id
                && metadata.len() > size =>
        {
            inode::open_for_writing(path, id)?.set_len(size)
        }
        _ => Ok(()),
    }
}

/// Restores the content of a file from its backup.
fn refill(
    path: &Path,
    id: FileId,
    size: u64,
    backup: &Path,
    outcome: Option<Outcome>,
) -> io::Result<()> {
    // Without an outcome the rank failed before the copy was complete, and has not changed the
    // file.
    let Some(outcome) = outcome else {
        return Ok(());
    };
    let backup = open_backup(backup, outcome, size)?;
    let mut options = OpenOptions::new();
    let file = match found(path)? {
        None => options.write(true).create_new(true).open(path)?,
        Some(_) => inode::open_for_writing(path, id)?,
    };
    file.set_len(0)?;
    clone_or_copy(&backup, &file)
}

/// Renames a backup to the removed name.
fn restore_removed(
    path: &Path,
    id: FileId,
    backup: &Path,
    outcome: Option<Outcome>,
) -> io::Result<()> {
    let current = found(path)?;
    // If the file still exists, the rank failed before removing it, or the removal failed.
    let (Some(outcome), false) = (
        outcome,
        current
            .as_ref()
            .is_some_and(|found| FileId::from_metadata(found) == id),
    ) else {
        return Ok(());
    };
    let is_backup = |metadata: &Metadata| outcome.is(metadata);
    match (found(backup)?.filter(is_backup), current) {
        // An earlier undo has renamed the backup, and was interrupted before its record was
        // removed.
        (_, Some(current)) if is_backup(&current) => Ok(()),
        (Some(_), None) => fs::rename(backup, path),
        (Some(_), Some(_)) => Err(another_file()),
        (None, _) => Err(lost_backup(backup)),
    }
}

fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    if found(path)?.is_some() {
        return Ok(());
    }
    fs::DirBuilder::new().mode(mode).create(path)?;
    let mut options = OpenOptions::new();
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let directory = options.read(true).custom_flags(flags).open(path)?;
    directory.set_permissions(fs::Permissions::from_mode(mode))
}

fn rename_back(from: &Path, to: &Path, id: FileId) -> io::Result<()> {
    match found(to)? {
        Some(metadata) if FileId::from_metadata(&metadata) == id && found(from)?.is_none() => {
            fs::rename(to, from)
        }
        _ => Ok(()),
    }
}

fn exchange_back(from: &Path, to: &Path, id: FileId) -> io::Result<()> {
    let (first, second) = (found(from)?, found(to)?);
    let is_file = |metadata: &Metadata| FileId::from_metadata(metadata) == id;
    match (&first, &second) {
        // One of the two files may have been created since the cut, and may have been removed.
        (None, Some(second)) if is_file(second) => fs::rename(to, from),
        (Some(_), Some(second)) if is_file(second) => exchange(from, to),
        (Some(first), None) if !is_file(first) => fs::rename(from, to),
        _ => Ok(()),
    }
}
