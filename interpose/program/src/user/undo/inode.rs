//! Attributes of inodes: mode, owner, times, extended attributes (inode(7), xattr(7)).
//!
//! The attributes of a file are recorded when it is used for the first time in a section, before
//! its size and content. Records are undone from the latest to the first, so the times are restored
//! last.
#![allow(unsafe_code)]

use super::file_call::metadata_of;
use super::file_id::another_file;
use super::recorder::Recorder;
use super::undo_log::{Effect, FileId, InodeAttributes};
use std::ffi::{CStr, CString, c_char};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

impl Recorder {
    /// Records the attributes of a file, once in a section.
    pub(super) fn attributes(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let id = FileId::from_metadata(metadata);
        if !self.attributed.insert(id) {
            return Ok(());
        }
        self.write(Effect::Attributes {
            path: path.to_owned(),
            id,
            attributes: InodeAttributes::from_metadata(metadata),
        })
    }

    /// Records a change of an attribute, or of the extended attribute of the given name.
    pub fn change_attribute(&mut self, path: &Path, name: Option<&CStr>) -> io::Result<()> {
        let Some(metadata) = metadata_of(path) else {
            return Ok(());
        };
        if self.is_new(path, &metadata) {
            return Ok(());
        }
        let Some(name) = name else {
            return self.attributes(path, &metadata);
        };
        let id = FileId::from_metadata(&metadata);
        if !self.extended.insert((id, name.to_owned())) {
            return Ok(());
        }
        self.write(Effect::Extended {
            path: path.to_owned(),
            id,
            name: name.to_bytes().to_vec(),
            value: extended(&PinnedFile::open(path)?, name),
        })
    }
}

/// Maximum length of the value of an extended attribute in bytes (xattr(7)).
const MAX_VALUE: usize = 1 << 16;

/// Returns the value of an extended attribute; `None` if the file does not have it.
fn extended(file: &PinnedFile, name: &CStr) -> Option<Vec<u8>> {
    let mut value = vec![0u8; MAX_VALUE];
    // SAFETY: getxattr(2) with valid strings, which writes at most `MAX_VALUE` bytes.
    let length = unsafe {
        libc::getxattr(
            file.path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    // If getxattr(2) fails, the program's call will also fail.
    value.truncate(usize::try_from(length).ok()?);
    Some(value)
}

/// Converts the result of a call of libc.
fn check(rc: libc::c_int) -> io::Result<()> {
    match rc {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// File or symbolic link that is used through a descriptor, independently of its name.
struct PinnedFile {
    file: File,
    /// Path that leads to the file through its descriptor.
    path: CString,
}

impl PinnedFile {
    fn open(path: &Path) -> io::Result<PinnedFile> {
        let mut options = OpenOptions::new();
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let file = options.read(true).custom_flags(flags).open(path)?;
        let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        Ok(PinnedFile {
            file,
            path: CString::new(path)?,
        })
    }

    /// Opens the file of this name; `None` if it has another identity.
    fn find(path: &Path, id: FileId) -> io::Result<Option<PinnedFile>> {
        match PinnedFile::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(pinned) => {
                Ok((FileId::from_metadata(&pinned.file.metadata()?) == id).then_some(pinned))
            }
        }
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        // SAFETY: chmod(2) with a valid string.
        check(unsafe { libc::chmod(self.path.as_ptr(), mode) })
    }
}

/// Sets mode, owner and times of a file where they differ.
pub fn restore_attributes(path: &Path, id: FileId, saved: &InodeAttributes) -> io::Result<()> {
    let Some(pinned) = PinnedFile::find(path, id)? else {
        return Ok(());
    };
    let metadata = pinned.file.metadata()?;
    let now = InodeAttributes::from_metadata(&metadata);
    if (now.owner, now.group) != (saved.owner, saved.group) {
        // SAFETY: chown(2) with a valid string.
        check(unsafe { libc::chown(pinned.path.as_ptr(), saved.owner, saved.group) })?;
    }
    // A change of the owner clears bits of the mode (chown(2)).
    let mode = InodeAttributes::from_metadata(&pinned.file.metadata()?).mode;
    if mode != saved.mode && !metadata.is_symlink() {
        pinned.set_mode(saved.mode)?;
    }
    if now.times == saved.times {
        return Ok(());
    }
    let time = |(tv_sec, tv_nsec): (i64, i64)| libc::timespec { tv_sec, tv_nsec };
    let times = saved.times.map(time);
    // SAFETY: utimensat(2) with a valid string and two times.
    check(unsafe { libc::utimensat(libc::AT_FDCWD, pinned.path.as_ptr(), times.as_ptr(), 0) })
}

/// Sets or removes an extended attribute.
pub fn restore_extended(
    path: &Path,
    id: FileId,
    name: &[u8],
    saved: Option<&[u8]>,
) -> io::Result<()> {
    let name = CString::new(name)?;
    let Some(pinned) = PinnedFile::find(path, id)? else {
        return Ok(());
    };
    if extended(&pinned, &name).as_deref() == saved {
        return Ok(());
    }
    let (path, name): (*const c_char, *const c_char) = (pinned.path.as_ptr(), name.as_ptr());
    // SAFETY: setxattr(2) or removexattr(2) with valid strings and a value of this length.
    check(unsafe {
        match saved {
            Some(value) => libc::setxattr(path, name, value.as_ptr().cast(), value.len(), 0),
            None => libc::removexattr(path, name),
        }
    })
}

/// Opens a file that the program may have made read-only since the checkpoint.
///
/// # Errors
/// Fails with the errors of open(2), or if the name leads to another file.
pub fn open_for_writing(path: &Path, id: FileId) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).custom_flags(libc::O_NOFOLLOW);
    let file = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let pinned = PinnedFile::find(path, id)?.ok_or_else(another_file)?;
            let mode = pinned.file.metadata()?.permissions().mode();
            pinned.set_mode(mode | 0o200)?;
            options.open(path)?
        }
        other => other?,
    };
    match FileId::from_metadata(&file.metadata()?) == id {
        true => Ok(file),
        false => Err(another_file()),
    }
}
