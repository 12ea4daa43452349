//! Recording of content that the program overwrites in open files.
#![allow(unsafe_code)]

use super::caller::is_restorable;
use super::file_call::metadata_of;
use super::overwrite::Source;
use super::recorder::{MAX_OVERWRITTEN, MAX_TRUNCATED, Recorded, Recorder};
use super::undo_log::{Effect, FileId};
use std::ffi::c_int;
use std::fs::{self, File};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use understudy_formats::private_directories::SHARED_MEMORY_DIRECTORY;
use understudy_image::vmas::REMOVED;
use understudy_policy::ranges::ByteRange;

/// Maximum number of bytes that are read at once.
const PIECE_BYTES: usize = 16 << 20;

impl Recorder {
    /// Records that a range of an open file is about to be overwritten.
    ///
    /// The range is overwritten by a write or through a mapping.
    pub fn overwrite_open(
        &mut self,
        fd: c_int,
        (offset, length): ByteRange,
        is_mapped: bool,
    ) -> io::Result<()> {
        // SAFETY: the program's descriptor stays open, and `ManuallyDrop` does not close it.
        let own = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        let metadata = own.metadata()?;
        let id = FileId::from_metadata(&metadata);
        let length = length.min(metadata.len().saturating_sub(offset));
        let overwritten = self.overwritten.get(&id);
        let is_recorded = self.recorded.get(&id) == Some(&Recorded::Content)
            || overwritten.is_some_and(|ranges| ranges.contains((offset, length)));
        // The content of a file without a name is part of the checkpoint.
        if length == 0 || is_recorded || !metadata.is_file() || metadata.nlink() == 0 {
            return Ok(());
        }
        let named = fs::read_link(proc_path(fd))?;
        if !is_restorable(&named) {
            return Ok(());
        }
        let path = self.path_of(named, id)?;
        if is_mapped {
            // The file is memory of shm_open(3), and the checkpoint contains the mapping.
            if path.starts_with(SHARED_MEMORY_DIRECTORY) && !self.recorded.contains_key(&id) {
                return Ok(());
            }
            if length > MAX_OVERWRITTEN {
                self.warn(&path, "it is mapped, and too large to be backed up");
                return Ok(());
            }
        }
        // SAFETY: fcntl(2) that only queries.
        let is_readable =
            unsafe { libc::fcntl(fd, libc::F_GETFL) } & libc::O_ACCMODE == libc::O_RDWR;
        let file = match is_readable {
            true => Source::Readable(&own),
            false => Source::Written(&own),
        };
        let mut pieces = (offset..offset + length).step_by(PIECE_BYTES);
        pieces.try_for_each(|from| {
            self.overwrite(
                || path.clone(),
                file,
                &[(from, (offset + length - from).min(PIECE_BYTES as u64))],
            )
        })
    }

    /// Records that an open file is about to be truncated or extended.
    pub fn truncate_open(&mut self, fd: c_int, length: u64) -> io::Result<()> {
        // SAFETY: the program's descriptor stays open, and `ManuallyDrop` does not close it.
        let size = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) })
            .metadata()?
            .len();
        if size.saturating_sub(length) > MAX_TRUNCATED {
            self.warn(
                &fs::read_link(proc_path(fd))?,
                "the part that is cut off is too large to be backed up",
            );
            return Ok(());
        }
        self.overwrite_open(fd, (length, size.saturating_sub(length)), false)
    }

    /// Returns a path that leads to an open file.
    ///
    /// The path is the file's name, or a name of its backup if the file's own name was removed.
    fn path_of(&mut self, named: PathBuf, id: FileId) -> io::Result<PathBuf> {
        let is_file = |path: &Path| {
            metadata_of(path).is_some_and(|found| FileId::from_metadata(&found) == id)
        };
        if !named.as_os_str().as_bytes().ends_with(REMOVED) || is_file(&named) {
            return Ok(named);
        }
        if let Some(link) = self.links.get(&id).filter(|link| is_file(link)) {
            return Ok(link.clone());
        }
        let above = named.ancestors().skip(1);
        let entries = above
            .filter_map(|directory| fs::read_dir(directory).ok())
            .flatten();
        let mut paths = entries.flatten().map(|entry| entry.path());
        let found = paths.find(|path| self.keeper.is_backup(path) && is_file(path));
        self.link(
            &found.ok_or_else(|| {
                io::Error::other("its name was removed, and its backup was not found")
            })?,
            id,
        )
    }

    /// Creates another name of a backup for this section.
    ///
    /// The first name may belong to an earlier section, with which it is removed.
    fn link(&mut self, backup: &Path, id: FileId) -> io::Result<PathBuf> {
        let mut link = PathBuf::new();
        let record = |name: &Path| Effect::Overwritten {
            path: backup.to_owned(),
            id,
            ranges: Vec::new(),
            bytes: Vec::new(),
            backup: Some(name.to_owned()),
            backup_offset: 0,
        };
        self.create_backup(backup.parent().unwrap_or(backup), record, |name| {
            link = name.to_owned();
            fs::hard_link(backup, name)
        })?;
        self.links.insert(id, link.clone());
        Ok(link)
    }
}

/// Returns the path that proc(5) has for an open file.
fn proc_path(fd: c_int) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}
