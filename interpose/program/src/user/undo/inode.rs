//! Attributes of inodes: mode, owner, times, extended attributes (inode(7), xattr(7)).
//!
//! The attributes of a file are recorded when it is used for the first time in a section, before
//! its size and content. Records are undone from the latest to the first, so the times are restored
//! last.
#![allow(unsafe_code)]

use super::file_call::metadata_of;
use super::file_id::another_file;
use super::log::{Attributes, Effect, Id};
use super::note::Recorder;
use std::ffi::{CStr, CString, c_char};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

impl Recorder {
    /// Records the attributes of a file, once in a section.
    pub(super) fn attributes(&mut self, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let id = Id::of(metadata);
        if !self.attributed.insert(id) {
            return Ok(());
        }
        self.write(Effect::Attributes {
            path: path.to_owned(),
            id,
            attributes: Attributes::of(metadata),
        })
    }

    /// Records a change of an attribute; if a name is given, of an extended attribute.
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
        let id = Id::of(&metadata);
        if !self.extended.insert((id, name.to_owned())) {
            return Ok(());
        }
        self.write(Effect::Extended {
            path: path.to_owned(),
            id,
            name: name.to_bytes().to_vec(),
            value: extended(&Pinned::open(path)?, name),
        })
    }
}

/// Maximum length of the value of an extended attribute in bytes (xattr(7)).
const MAX_VALUE: usize = 1 << 16;

/// Returns the value of an extended attribute; `None` if the file does not have it.
fn extended(file: &Pinned, name: &CStr) -> Option<Vec<u8>> {
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
    // If this call fails, the program's call will fail as well.
    value.truncate(usize::try_from(length).ok()?);
    Some(value)
}

fn answer(rc: libc::c_int) -> io::Result<()> {
    match rc {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// File or symbolic link that is used through a descriptor, independently of its name.
struct Pinned {
    file: File,
    /// Path that leads to the file through its descriptor.
    path: CString,
}

impl Pinned {
    fn open(path: &Path) -> io::Result<Pinned> {
        let mut options = OpenOptions::new();
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        let file = options.read(true).custom_flags(flags).open(path)?;
        let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        Ok(Pinned {
            file,
            path: CString::new(path)?,
        })
    }

    /// Opens the file of this name; `None` if it has another identity.
    fn find(path: &Path, id: Id) -> io::Result<Option<Pinned>> {
        match Pinned::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
            Ok(pinned) => Ok((Id::of(&pinned.file.metadata()?) == id).then_some(pinned)),
        }
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        // SAFETY: chmod(2) with a valid string.
        answer(unsafe { libc::chmod(self.path.as_ptr(), mode) })
    }
}

/// Sets mode, owner and times of a file where they differ.
pub fn put_back(path: &Path, id: Id, then: &Attributes) -> io::Result<()> {
    let Some(pinned) = Pinned::find(path, id)? else {
        return Ok(());
    };
    let metadata = pinned.file.metadata()?;
    let now = Attributes::of(&metadata);
    if (now.owner, now.group) != (then.owner, then.group) {
        // SAFETY: chown(2) with a valid string.
        answer(unsafe { libc::chown(pinned.path.as_ptr(), then.owner, then.group) })?;
    }
    // A change of the owner clears bits of the mode (chown(2)).
    let mode = Attributes::of(&pinned.file.metadata()?).mode;
    if mode != then.mode && !metadata.is_symlink() {
        pinned.set_mode(then.mode)?;
    }
    if now.times == then.times {
        return Ok(());
    }
    let time = |(tv_sec, tv_nsec): (i64, i64)| libc::timespec { tv_sec, tv_nsec };
    let times = then.times.map(time);
    // SAFETY: utimensat(2) with a valid string and two times.
    answer(unsafe { libc::utimensat(libc::AT_FDCWD, pinned.path.as_ptr(), times.as_ptr(), 0) })
}

/// Sets or removes an extended attribute.
pub fn put_back_extended(path: &Path, id: Id, name: &[u8], then: Option<&[u8]>) -> io::Result<()> {
    let name = CString::new(name)?;
    let Some(pinned) = Pinned::find(path, id)? else {
        return Ok(());
    };
    if extended(&pinned, &name).as_deref() == then {
        return Ok(());
    }
    let (path, name): (*const c_char, *const c_char) = (pinned.path.as_ptr(), name.as_ptr());
    // SAFETY: setxattr(2) or removexattr(2) with valid strings and a value of this length.
    answer(unsafe {
        match then {
            Some(value) => libc::setxattr(path, name, value.as_ptr().cast(), value.len(), 0),
            None => libc::removexattr(path, name),
        }
    })
}

/// Opens a file that the program may have made read-only since the checkpoint.
///
/// # Errors
/// Fails with the errors of open(2), or if the name leads to another file.
pub fn open_for_writing(path: &Path, id: Id) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.write(true).custom_flags(libc::O_NOFOLLOW);
    let file = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let pinned = Pinned::find(path, id)?.ok_or_else(another_file)?;
            let mode = pinned.file.metadata()?.permissions().mode();
            pinned.set_mode(mode | 0o200)?;
            options.open(path)?
        }
        other => other?,
    };
    match Id::of(&file.metadata()?) == id {
        true => Ok(file),
        false => Err(another_file()),
    }
}
