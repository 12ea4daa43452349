//! Names that a process passes in its calls, and the files to which they lead.

use super::file_call::FileCall;
use std::ffi::{CStr, OsStr, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use understudy_abi::effect;
use understudy_formats::private_directories::SHARED_MEMORY_DIRECTORY;

/// Both names of a call, each with the descriptor of its directory (openat(2)).
pub type Names<'a> = [(c_int, Option<&'a CStr>); 2];

/// Process that makes a call, identified by its directory in proc(5).
pub struct Caller(String);

impl Caller {
    pub fn own() -> Caller {
        Caller("/proc/self".to_owned())
    }

    /// Returns another process of the user.
    pub fn other(process: i32) -> Caller {
        Caller(format!("/proc/{process}"))
    }

    /// Returns the name of an open file.
    pub fn open_file(&self, fd: c_int) -> Option<PathBuf> {
        fs::read_link(format!("{}/fd/{fd}", self.0)).ok()
    }

    /// Returns the absolute path of a name.
    ///
    /// Links are resolved, except for the last component of the path.
    fn absolute(&self, (directory, name): (c_int, Option<&CStr>)) -> Option<PathBuf> {
        let name = Path::new(OsStr::from_bytes(name?.to_bytes()));
        let full = if name.is_absolute() {
            name.to_owned()
        } else if directory == libc::AT_FDCWD {
            fs::read_link(format!("{}/cwd", self.0)).ok()?.join(name)
        } else {
            self.open_file(directory)?.join(name)
        };
        let found = fs::canonicalize(full.parent()?)
            .ok()?
            .join(full.file_name()?);
        is_restorable(&found).then_some(found)
    }

    /// Returns the call for an effect on names; `None` if the files cannot be restored.
    pub fn call(&self, kind: u32, names: Names<'_>, value: i64) -> Option<FileCall> {
        let path = self.absolute(names[0])?;
        let (files, directories) = (
            value & effect::NON_DIRECTORIES != 0,
            value & effect::DIRECTORIES != 0,
        );
        Some(match kind {
            effect::RENAME => FileCall::Rename {
                from: path,
                to: self.absolute(names[1])?,
                flags: value as u32,
            },
            effect::OPEN => FileCall::Open {
                path: follow_link(path),
                flags: value as i32,
            },
            effect::REMOVE => FileCall::Remove {
                path,
                files,
                directories,
            },
            effect::CREATE => FileCall::Create {
                path,
                directory: directories,
            },
            effect::TRUNCATE => FileCall::Truncate {
                path: follow_link(path),
                length: value,
            },
            _ => return None,
        })
    }

    /// Returns the file whose attribute changes.
    ///
    /// Without a name, the file is the open file of the descriptor.
    pub fn attributed(&self, names: Names<'_>, value: i64) -> Option<PathBuf> {
        let (descriptor, name) = names[0];
        let path = match name {
            None => self.open_file(descriptor),
            Some(_) => self.absolute(names[0]),
        };
        let is_link_itself = value & effect::NO_FOLLOW != 0;
        let path = path.filter(|path| is_restorable(path))?;
        Some(match is_link_itself {
            true => path,
            false => follow_link(path),
        })
    }
}

/// Returns the absolute path of the file to which a name of the program leads.
///
/// A name is returned unchanged if its directory does not exist, or its file cannot be restored.
pub fn full_name(name: &CStr) -> PathBuf {
    let found = Caller::own().absolute((libc::AT_FDCWD, Some(name)));
    found.map_or_else(
        || PathBuf::from(OsStr::from_bytes(name.to_bytes())),
        follow_link,
    )
}

/// True if the file at a path can be restored.
///
/// False for files in proc(5), sysfs(5) and `/dev`. Files in `/dev/shm` can be restored.
pub fn is_restorable(path: &Path) -> bool {
    let special = ["/proc", "/sys", "/dev"]
        .iter()
        .any(|top| path.starts_with(top));
    path.is_absolute() && (!special || path.starts_with(SHARED_MEMORY_DIRECTORY))
}

/// Returns the target of a symbolic link, even if the target does not exist yet.
pub fn follow_link(path: PathBuf) -> PathBuf {
    let Ok(target) = fs::read_link(&path) else {
        return path;
    };
    fs::canonicalize(&path).unwrap_or_else(|_| path.parent().unwrap_or(&path).join(target))
}
