//! Undoing.

use super::inode;
use super::keep::clone_or_copy;
use super::log::{Effect, Id, Log};
use super::note::exchange;
use super::overwrite;
use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use understudy_numbers::Epoch;

/// How long a directory may take to become empty: what others have made in it, they remove.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(2);

/// An effect could not be undone.
#[derive(Debug)]
pub struct Failed {
    /// What it was about.
    pub path: PathBuf,
    /// What went wrong.
    pub error: io::Error,
}

/// Undoes all sections from `first` on in all of `logs`, the latest effect first. It may be repeated at any point: a
/// record goes as soon as its effect is undone, and one effect may be undone twice.
pub fn undo(logs: &mut [Log], first: Epoch) -> Result<(), Failed> {
    let mut renewed = Renewed::default();
    loop {
        let due = |log: &Log| {
            log.last()
                .filter(|last| last.section >= first)
                .map(|last| last.time)
        };
        let latest = (0..logs.len()).max_by_key(|&log| due(&logs[log]));
        let Some(latest) = latest.filter(|&log| due(&logs[log]).is_some()) else {
            return Ok(());
        };
        let Some(mut record) = logs[latest].last().cloned() else {
            return Ok(());
        };
        renewed.find(&mut record.effect, logs);
        record.effect.renumber_device();
        log::debug!("undone: {:?}", record.effect);
        renewed
            .undo(&record.effect)
            .map_err(|(path, error)| Failed {
                path: path.to_owned(),
                error,
            })?;
        if let Some(backup) = record.effect.backup() {
            let _ = fs::remove_file(backup);
        }
        logs[latest].pop().map_err(|error| Failed {
            path: "the undo log".into(),
            error,
        })?;
    }
}

/// Files that had to be made anew: what they were, and what they are.
#[derive(Default)]
struct Renewed(HashMap<Id, Id>);

impl Renewed {
    fn now(&self, id: &Id) -> Id {
        *self.0.get(id).unwrap_or(id)
    }

    /// An open file that has been written may have got another name at the same time, or lost it before: then it is where what is not undone
    /// yet has put it.
    fn find(&self, effect: &mut Effect, logs: &[Log]) {
        let (Effect::Grown { path, id, .. }
        | Effect::Overwritten { path, id, .. }
        | Effect::Attributes { path, id, .. }
        | Effect::Extended { path, id, .. }) = effect
        else {
            return;
        };
        let now = self.now(id);
        let is_it = |place: &Path| {
            found(place)
                .is_ok_and(|found| found.is_some_and(|found| Id::of(&found).inode == now.inode))
        };
        if is_it(path) {
            return;
        }
        let places = logs
            .iter()
            .flat_map(Log::records)
            .filter_map(|record| match &record.effect {
                Effect::Removed { id: it, backup, .. } if it == id => Some(backup),
                Effect::Renamed { to, id: it, .. } if it == id => Some(to),
                _ => None,
            });
        if let Some(place) = places.into_iter().find(|place| is_it(place)) {
            path.clone_from(place);
        }
    }

    fn undo<'a>(&mut self, effect: &'a Effect) -> Result<(), (&'a Path, io::Error)> {
        let now = |id: &Id| self.now(id);
        let (path, done) = match effect {
            Effect::Created { path } => (path, remove(path)),
            Effect::Grown { path, id, size } => (path, shrink(path, now(id), *size)),
            Effect::Changed {
                path, size, backup, ..
            } => (path, refill(path, *size, backup)),
            Effect::Overwritten {
                path,
                id,
                ranges,
                bytes,
                backup,
                place,
            } => {
                let kept = backup.as_deref().map(|backup| (backup, *place));
                (
                    path,
                    overwrite::put_back(path, now(id), ranges, bytes, kept),
                )
            }
            Effect::Removed { path, id, backup } => (path, bring_back(path, *id, backup)),
            Effect::RemovedDirectory { path, mode, .. } => (path, make_directory(path, *mode)),
            Effect::Renamed { from, to, id, .. } => (from, rename_back(from, to, now(id))),
            Effect::Attributes {
                path,
                id,
                attributes,
            } => (path, inode::put_back(path, now(id), attributes)),
            Effect::Extended {
                path,
                id,
                name,
                value,
            } => (
                path,
                inode::put_back_extended(path, now(id), name, value.as_deref()),
            ),
            Effect::Exchanged { from, to, id } => (from, exchange_back(from, to, now(id))),
        };
        if let Effect::Changed { path, id, .. }
        | Effect::Removed { path, id, .. }
        | Effect::RemovedDirectory { path, id, .. } = effect
            && let Ok(Some(metadata)) = found(path)
        {
            self.0.insert(*id, Id::of(&metadata));
        }
        done.map_err(|error| (path.as_path(), error))
    }
}

/// What has this name, if anything.
fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let Some(metadata) = found(path)? else {
        return Ok(());
    };
    if !metadata.is_dir() {
        return forgive_missing(fs::remove_file(path));
    }
    let start = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                if start.elapsed() > EMPTY_TIMEOUT {
                    log::warn!(
                        "{} was made since the checkpoint and is left, since it is not empty",
                        path.display()
                    );
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return forgive_missing(other),
        }
    }
}

fn forgive_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn shrink(path: &Path, id: Id, size: u64) -> io::Result<()> {
    match found(path)? {
        Some(metadata)
            if metadata.is_file() && Id::of(&metadata) == id && metadata.len() > size =>
        {
            inode::open_for_writing(&mut OpenOptions::new(), path)?.set_len(size)
        }
        _ => Ok(()),
    }
}

fn refill(path: &Path, size: u64, backup: &Path) -> io::Result<()> {
    // If the rank died before the copy was whole, the file has not changed.
    if found(backup)?.is_none_or(|backup| backup.len() < size) {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(true);
    let file = inode::open_for_writing(options, path)?;
    clone_or_copy(&File::open(backup)?, &file)
}

fn bring_back(path: &Path, id: Id, backup: &Path) -> io::Result<()> {
    // If the file is still there, the rank died before it could remove it, or that failed.
    if found(backup)?.is_none() || found(path)?.is_some_and(|metadata| Id::of(&metadata) == id) {
        return Ok(());
    }
    fs::rename(backup, path)
}

fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    if found(path)?.is_some() {
        return Ok(());
    }
    fs::DirBuilder::new().mode(mode).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

fn rename_back(from: &Path, to: &Path, id: Id) -> io::Result<()> {
    match found(to)? {
        Some(metadata) if Id::of(&metadata) == id && found(from)?.is_none() => fs::rename(to, from),
        _ => Ok(()),
    }
}

fn exchange_back(from: &Path, to: &Path, id: Id) -> io::Result<()> {
    let (first, second) = (found(from)?, found(to)?);
    let is_it = |metadata: &Metadata| Id::of(metadata) == id;
    match (&first, &second) {
        // One of the two may have been made since the cut, and is gone by now.
        (None, Some(there)) if is_it(there) => fs::rename(to, from),
        (Some(_), Some(there)) if is_it(there) => exchange(from, to),
        (Some(here), None) if !is_it(here) => fs::rename(from, to),
        _ => Ok(()),
    }
}
