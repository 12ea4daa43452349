//! Records of calls that remove or rename files and directories.

use super::file_call::metadata_of;
use super::keeper;
use super::recorder::Recorder;
use super::undo_log::{Effect, FileId};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

impl Recorder {
    pub(super) fn remove(&mut self, path: &Path, files: bool, directories: bool) -> io::Result<()> {
        let Some(metadata) = metadata_of(path) else {
            return Ok(());
        };
        if metadata.is_dir() {
            return if directories {
                self.remove_directory(path, &metadata)
            } else {
                Ok(())
            };
        }
        if files {
            self.remove_file(path, &metadata)
        } else {
            Ok(())
        }
    }

    fn remove_file(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let kind = metadata.file_type();
        if self.is_new(path, metadata) {
            return self.remove_new(path, metadata);
        }
        if kind.is_fifo() || kind.is_socket() || kind.is_char_device() {
            return Ok(());
        }
        self.created.remove(path);
        let id = FileId::from_metadata(metadata);
        let record = |backup: &Path| Effect::Removed {
            path: path.to_owned(),
            id,
            backup: backup.to_owned(),
        };
        // A program that empties a directory while it lists the directory also finds and removes
        // backups. The backup of a backup is placed one directory higher, because otherwise the
        // program would find a new backup after each removal.
        let mut above = path.ancestors().skip(1);
        let directory = above.next().unwrap_or(path);
        let directory = if self.keeper.is_backup(path) {
            above.next().unwrap_or(directory)
        } else {
            directory
        };
        self.create_backup(directory, record, |backup| {
            keeper::link(path, backup, metadata)
        })
    }

    /// Records the removal of a directory.
    ///
    /// Backups in the directory would prevent its removal, so they are moved one directory higher.
    /// A directory with other entries is not recorded, because the program's call will fail.
    fn remove_directory(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let Some(backups) = self.keeper.only_backups(path)? else {
            return Ok(());
        };
        let above = path.parent().unwrap_or(path).to_owned();
        for from in backups {
            let Some(metadata) = metadata_of(&from) else {
                continue;
            };
            let to = self.keeper.name(&above);
            let id = FileId::from_metadata(&metadata);
            let (old, new) = (from.clone(), to.clone());
            self.write(Effect::Renamed {
                from: old,
                to: new,
                id,
                directory: false,
            })?;
            fs::rename(from, to)?;
        }
        self.forget_below(path);
        self.created.remove(path);
        self.write(Effect::RemovedDirectory {
            path: path.to_owned(),
            id: FileId::from_metadata(metadata),
            mode: metadata.permissions().mode() & 0o7777,
        })
    }

    /// Discards names below a directory that were recorded as created.
    fn forget_below(&mut self, directory: &Path) {
        self.created
            .retain(|path| path == directory || !path.starts_with(directory));
    }

    /// True if rename(2) will fail, so that no record may be written.
    ///
    /// The call then leaves the target in place. A backup would be a second name of the target, so
    /// later writes of the program would change the backup, too.
    fn rename_fails(&self, source: &Metadata, to: &Path, target: Option<&Metadata>) -> bool {
        let is_on_other_device = to
            .parent()
            .and_then(metadata_of)
            .is_none_or(|above| above.dev() != source.dev());
        let has_other_type = target.is_some_and(|target| target.is_dir() != source.is_dir());
        let is_not_empty = target.is_some_and(|target| {
            target.is_dir() && !matches!(self.keeper.only_backups(to), Ok(Some(_)))
        });
        is_on_other_device || has_other_type || is_not_empty
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, flags: u32) -> io::Result<()> {
        let (Some(source), target) = (metadata_of(from), metadata_of(to)) else {
            return Ok(());
        };
        let id = FileId::from_metadata(&source);
        let owned = |from: &Path, to: &Path| (from.to_owned(), to.to_owned());
        if flags & libc::RENAME_EXCHANGE != 0 {
            if target.is_none() {
                return Ok(());
            }
            self.created.clear();
            let (from, to) = owned(from, to);
            return self.write(Effect::Exchanged { from, to, id });
        }
        let is_same_file = target
            .as_ref()
            .is_some_and(|target| FileId::from_metadata(target) == id);
        let is_refused = target.is_some() && flags & libc::RENAME_NOREPLACE != 0;
        if is_same_file || is_refused || self.rename_fails(&source, to, target.as_ref()) {
            return Ok(());
        }
        match &target {
            Some(target) if target.is_dir() => self.remove_directory(to, target)?,
            Some(target) => self.remove_file(to, target)?,
            None => {}
        }
        self.forget_below(from);
        self.forget_below(to);
        if self.created.remove(from) {
            self.created.insert(to.to_owned());
        } else {
            self.created.remove(to);
        }
        let (from, to) = owned(from, to);
        let directory = source.is_dir();
        self.write(Effect::Renamed {
            from,
            to,
            id,
            directory,
        })
    }
}
