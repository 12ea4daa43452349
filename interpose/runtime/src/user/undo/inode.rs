//! Attributes of inodes: mode, owner, times, extended attributes (inode(7), xattr(7)).
//!
//! They are noted when a file is touched for the first time in a section, before its size and
//! content: records are undone from the latest to the first, so that the times come last.
#![allow(unsafe_code)]

use super::log::{Attributes, Effect, Id};
use super::note::{Recorder, metadata_of};
use std::ffi::{CString, c_char};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown};
use std::path::Path;

impl Recorder {
    /// Notes the attributes of a file, once in a section.
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

    /// Notes a change of an attribute; with a name, of an extended one.
    pub fn change_attribute(&mut self, path: &Path, name: Option<&CString>) -> io::Result<()> {
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
        if !self.extended.insert((id, name.clone())) {
            return Ok(());
        }
        self.write(Effect::Extended {
            path: path.to_owned(),
            id,
            name: name.as_bytes().to_vec(),
            value: extended(path, name)?,
        })
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Longest value of an extended attribute (xattr(7)).
const MAX_VALUE: usize = 1 << 16;

/// Returns the value of an extended attribute; `None` if the file does not have it.
fn extended(path: &Path, name: &CString) -> io::Result<Option<Vec<u8>>> {
    let path = c_path(path)?;
    let mut value = vec![0u8; MAX_VALUE];
    // SAFETY: lgetxattr(2) with valid strings, which writes `MAX_VALUE` bytes at most.
    let length = unsafe {
        libc::lgetxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    match usize::try_from(length) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        // The call of the program will fail for the same reason.
        Err(_) => Ok(None),
    }
}

fn answer(rc: libc::c_int) -> io::Result<()> {
    match rc {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the file of this name, if it is the one with that inode.
fn found(path: &Path, id: Id) -> Option<Metadata> {
    metadata_of(path).filter(|metadata| Id::of(metadata) == id)
}

/// Sets mode, owner and times of a file where they differ.
pub fn put_back(path: &Path, id: Id, then: &Attributes) -> io::Result<()> {
    let Some(metadata) = found(path, id) else {
        return Ok(());
    };
    let now = Attributes::of(&metadata);
    if (now.owner, now.group) != (then.owner, then.group) {
        lchown(path, Some(then.owner), Some(then.group))?;
    }
    // A change of the owner clears bits of the mode (chown(2)).
    let mode = metadata_of(path).map(|metadata| Attributes::of(&metadata).mode);
    if mode != Some(then.mode) && !metadata.is_symlink() {
        fs::set_permissions(path, Permissions::from_mode(then.mode))?;
    }
    if now.times == then.times {
        return Ok(());
    }
    let time = |(tv_sec, tv_nsec): (i64, i64)| libc::timespec { tv_sec, tv_nsec };
    let times = then.times.map(time);
    let path = c_path(path)?;
    // SAFETY: utimensat(2) with a valid string and two times.
    answer(unsafe {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        libc::utimensat(libc::AT_FDCWD, path.as_ptr(), times.as_ptr(), flags)
    })
}

/// Sets or removes an extended attribute.
pub fn put_back_extended(path: &Path, id: Id, name: &[u8], then: Option<&[u8]>) -> io::Result<()> {
    let name = CString::new(name)?;
    if found(path, id).is_none() || extended(path, &name)?.as_deref() == then {
        return Ok(());
    }
    let path = c_path(path)?;
    let (path, name): (*const c_char, *const c_char) = (path.as_ptr(), name.as_ptr());
    // SAFETY: lsetxattr(2) or lremovexattr(2) with valid strings and a value of this length.
    answer(unsafe {
        match then {
            Some(value) => libc::lsetxattr(path, name, value.as_ptr().cast(), value.len(), 0),
            None => libc::lremovexattr(path, name),
        }
    })
}

/// Opens a file that the program may have made read-only since the checkpoint.
///
/// # Errors
/// Those of open(2).
pub fn open_for_writing(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let options = options.write(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let mode = fs::symlink_metadata(path)?.permissions().mode();
            fs::set_permissions(path, Permissions::from_mode(mode | 0o200))?;
            options.open(path)
        }
        other => other,
    }
}
