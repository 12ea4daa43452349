//! Names that a process passes in its calls, and the files to which they lead.

use super::file_call::Call;
use std::ffi::{CStr, OsStr, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use understudy_abi::effect;
use understudy_formats::private::MEMORY;

/// Both names of a call, each with the descriptor of its directory (openat(2)).
pub type Names<'a> = [(c_int, Option<&'a CStr>); 2];

/// Process that makes a call, identified by its directory in proc(5).
pub struct Caller(String);

impl Caller {
    pub fn own() -> Caller {
        Caller("/proc/self".to_owned())
    }

    /// Returns another process of the user.
    pub fn of(process: i32) -> Caller {
        Caller(format!("/proc/{process}"))
    }

    /// Returns the name of an open file.
    pub fn open_file(&self, fd: c_int) -> Option<PathBuf> {
        fs::read_link(format!("{}/fd/{fd}", self.0)).ok()
    }

    /// Returns the absolute path of a name.
    ///
    /// Only the last part of the path may be a link.
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
        is_of_interest(&found).then_some(found)
    }

    /// Returns the call for an effect on names, if it concerns files of the program.
    pub fn call(&self, kind: u32, names: Names<'_>, value: i64) -> Option<Call> {
        let path = self.absolute(names[0])?;
        let (files, directories) = (value & effect::FILES != 0, value & effect::DIRECTORIES != 0);
        Some(match kind {
            effect::RENAME => Call::Rename {
                from: path,
                to: self.absolute(names[1])?,
                flags: value as u32,
            },
            effect::OPEN => Call::Open {
                path: followed(path),
                flags: value as i32,
            },
            effect::REMOVE => Call::Remove {
                path,
                files,
                directories,
            },
            effect::CREATE => Call::Create {
                path,
                directory: directories,
            },
            effect::TRUNCATE => Call::Truncate {
                path: followed(path),
                length: value,
            },
            _ => return None,
        })
    }

    /// Returns the file whose attribute changes.
    ///
    /// Without a name this is the open file.
    pub fn attributed(&self, names: Names<'_>, value: i64) -> Option<PathBuf> {
        let (descriptor, name) = names[0];
        let path = match name {
            None => self.open_file(descriptor),
            Some(_) => self.absolute(names[0]),
        };
        let is_link_itself = value & effect::NO_FOLLOW != 0;
        let path = path.filter(|path| is_of_interest(path))?;
        Some(match is_link_itself {
            true => path,
            false => followed(path),
        })
    }
}

/// Returns the absolute path of the file to which a name of the program leads.
///
/// A name that leads to no file is returned unchanged.
pub fn full_name(name: &CStr) -> PathBuf {
    let found = Caller::own().absolute((libc::AT_FDCWD, Some(name)));
    found.map_or_else(
        || PathBuf::from(OsStr::from_bytes(name.to_bytes())),
        followed,
    )
}

/// True if a path is in a file system for files.
pub fn is_of_interest(path: &Path) -> bool {
    let special = ["/proc", "/sys", "/dev"]
        .iter()
        .any(|top| path.starts_with(top));
    path.is_absolute() && (!special || path.starts_with(MEMORY))
}

/// Returns the target of a symbolic link, even if the target does not exist yet.
pub fn followed(path: PathBuf) -> PathBuf {
    let Ok(target) = fs::read_link(&path) else {
        return path;
    };
    fs::canonicalize(&path).unwrap_or_else(|_| path.parent().unwrap_or(&path).join(target))
}
