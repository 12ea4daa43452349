//! Undo of recorded effects.

use super::anchor::Anchor;
use super::backup::{lost_backup, open_backup};
use super::file_call::exchange;
use super::file_id::another_file;
use super::inode;
use super::keeper::clone_or_copy;
use super::object;
use super::outcome::Outcome;
use super::overwrite;
use super::undo_log::{Effect, FileId, LoggedRecord, UndoLog};
use std::collections::HashMap;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_catalogue::message;
use understudy_numbers::Epoch;

/// Time limit for a directory to become empty, because other processes remove their entries.
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
    let mut renewed = RecreatedFiles::default();
    loop {
        let due = |log: &UndoLog| {
            let last = log.last().map(|last| &last.record);
            last.filter(|last| last.section >= first)
                .map(|last| last.time)
        };
        let latest = (0..logs.len()).max_by_key(|&log| due(&logs[log]));
        let Some(latest) = latest.filter(|&log| due(&logs[log]).is_some()) else {
            return Ok(());
        };
        let Some(mut noted) = logs[latest].last().cloned() else {
            return Ok(());
        };
        renewed.find(&mut noted, logs);
        noted.record.effect.renumber_device();
        log::debug!("undone: {:?}", noted.record.effect);
        let anchors = renewed.undo(&mut noted)?;
        logs[latest].pop().map_err(|error| UndoError {
            path: "the undo log".into(),
            error,
        })?;
        // The backup is removed after its record, which refers to it.
        if let Some(backup) = noted.record.effect.backup() {
            let _ = fs::remove_file(backup);
        }
        drop(anchors);
    }
}

/// Files that were created anew: their former and current identities.
#[derive(Default)]
struct RecreatedFiles(HashMap<FileId, FileId>);

impl RecreatedFiles {
    fn now(&self, id: &FileId) -> FileId {
        *self.0.get(&Self::key(id)).unwrap_or(id)
    }

    /// Returns `id` without the device, whose number differs in the records of another node.
    fn key(id: &FileId) -> FileId {
        FileId { device: 0, ..*id }
    }

    /// Finds the current name of a file that was written through a descriptor.
    ///
    /// The file may have been renamed or removed before or meanwhile. Another record, which is not
    /// undone yet, then contains the current name.
    fn find(&self, noted: &mut LoggedRecord, logs: &[UndoLog]) {
        let record = &mut noted.record;
        let (Effect::Grown { path, id, .. }
        | Effect::Overwritten { path, id, .. }
        | Effect::Attributes { path, id, .. }
        | Effect::Extended { path, id, .. }) = &mut record.effect
        else {
            return;
        };
        let now = self.now(id);
        let is_it = |place: &Path| {
            found(place).is_ok_and(|found| found.is_some_and(|found| now.is_of(&found)))
        };
        if is_it(path) {
            return;
        }
        let places =
            logs.iter()
                .flat_map(UndoLog::records)
                .filter_map(|record| match &record.effect {
                    Effect::Removed { id: it, backup, .. } if it == id => Some((backup, record)),
                    Effect::Renamed { to, id: it, .. } if it == id => Some((to, record)),
                    _ => None,
                });
        if let Some((place, of)) = places.into_iter().find(|(place, _)| is_it(place)) {
            path.clone_from(place);
            // In both effects the second name is used.
            if let (Some(own), Some(other)) =
                (record.directories.first_mut(), of.directories.get(1))
            {
                *own = *other;
            }
        }
    }

    /// Undoes an effect, and replaces its names by paths through open directories.
    ///
    /// Returns the anchors, which keep the directories open.
    fn undo(&mut self, noted: &mut LoggedRecord) -> Result<Vec<Anchor>, UndoError> {
        let record = &mut noted.record;
        let mut anchors = Vec::new();
        let subject = record.effect.paths().first().map(|path| path.to_path_buf());
        let failed = |error| UndoError {
            path: subject.clone().unwrap_or_default(),
            error,
        };
        for (path, directory) in record.effect.paths().into_iter().zip(&record.directories) {
            let anchor = Anchor::new(path, self.now(directory)).map_err(failed)?;
            anchor.path().clone_into(path);
            anchors.push(anchor);
        }
        self.undo_anchored(&record.effect, noted.outcome)
            .map_err(failed)?;
        Ok(anchors)
    }

    fn undo_anchored(&mut self, effect: &Effect, outcome: Option<Outcome>) -> io::Result<()> {
        let now = |id: &FileId| self.now(id);
        let done = match effect {
            Effect::Created { path } => self.remove_made(path, outcome),
            Effect::Grown { path, id, size } => shrink(path, now(id), *size),
            Effect::Changed {
                path,
                id,
                size,
                backup,
            } => refill(path, now(id), *size, backup, outcome),
            Effect::Overwritten {
                path,
                id,
                ranges,
                bytes,
                backup,
                place,
            } => {
                let kept = backup.as_deref().map(|backup| (backup, *place, outcome));
                overwrite::restore_ranges(path, now(id), ranges, bytes, kept)
            }
            Effect::Removed { path, id, backup } => restore_removed(path, *id, backup, outcome),
            Effect::RemovedDirectory { path, mode, .. } => make_directory(path, *mode),
            Effect::Renamed { from, to, id, .. } => rename_back(from, to, now(id)),
            Effect::Attributes {
                path,
                id,
                attributes,
            } => inode::restore_attributes(path, now(id), attributes),
            Effect::Extended {
                path,
                id,
                name,
                value,
            } => inode::restore_extended(path, now(id), name, value.as_deref()),
            Effect::Exchanged { from, to, id } => exchange_back(from, to, now(id)),
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
            self.0.insert(Self::key(id), FileId::of(&metadata));
        }
        done
    }

    /// Removes a file that the program has created, unless another file has its name.
    fn remove_made(&self, path: &Path, outcome: Option<Outcome>) -> io::Result<()> {
        let Some(found) = found(path)? else {
            return Ok(());
        };
        let Some(outcome) = outcome else {
            return remove(path, &found);
        };
        if self.now(&outcome.id).is_of(&found) {
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

fn shrink(path: &Path, id: FileId, size: u64) -> io::Result<()> {
    match found(path)? {
        Some(metadata)
            if metadata.is_file() && FileId::of(&metadata) == id && metadata.len() > size =>
        {
            inode::open_for_writing(path, id)?.set_len(size)
        }
        _ => Ok(()),
    }
}

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

fn restore_removed(
    path: &Path,
    id: FileId,
    backup: &Path,
    outcome: Option<Outcome>,
) -> io::Result<()> {
    let there = found(path)?;
    // If the file still exists, the rank failed before removing it, or the removal failed.
    let (Some(outcome), false) = (
        outcome,
        there.as_ref().is_some_and(|it| FileId::of(it) == id),
    ) else {
        return Ok(());
    };
    // The process that performed the undo may have failed during this step.
    let is_backup = |it: &Metadata| outcome.is(it);
    match (found(backup)?.filter(is_backup), there) {
        (_, Some(there)) if is_backup(&there) => Ok(()),
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
        Some(metadata) if FileId::of(&metadata) == id && found(from)?.is_none() => {
            fs::rename(to, from)
        }
        _ => Ok(()),
    }
}

fn exchange_back(from: &Path, to: &Path, id: FileId) -> io::Result<()> {
    let (first, second) = (found(from)?, found(to)?);
    let is_it = |metadata: &Metadata| FileId::of(metadata) == id;
    match (&first, &second) {
        // One of the two may have been created since the cut, and may have been removed.
        (None, Some(there)) if is_it(there) => fs::rename(to, from),
        (Some(_), Some(there)) if is_it(there) => exchange(from, to),
        (Some(here), None) if !is_it(here) => fs::rename(from, to),
        _ => Ok(()),
    }
}
