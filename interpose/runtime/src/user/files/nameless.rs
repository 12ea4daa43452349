//! Open files that have no name any more: their content goes with the image.
//!
//! Programs remove a file as soon as they have opened it, so that it goes with them (tmpfile(3), Fortran's scratch files,
//! memfd_create(2)). Nobody else can open it, so an understudy makes another one like it, in the same directory.
#![allow(unsafe_code)]

use super::{Open, memory_file, stat};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use understudy_abi::written::BACKUP_PREFIX;
use understudy_image::vmas::REMOVED;

/// More than this many bytes, of all of a process together, would make every checkpoint long.
const MOST: usize = 64 << 20;

/// Whether a path is that of a backup, which is the layer's.
pub fn is_backup(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_bytes().starts_with(BACKUP_PREFIX.as_bytes()))
}

/// Which file it is, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Nameless {
    id: (u64, u64),
    /// `None`: a lower descriptor has the same file.
    content: Option<Vec<u8>>,
    /// Seals of a file in memory.
    seals: i32,
    mode: u32,
}

fn within(fd: i32) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}

/// The same file, for its name only (O_PATH, open(2)).
pub fn path_only(fd: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(within(fd))
}

/// Whether the file that the kernel gives this path has no name.
pub fn is_nameless(path: &[u8]) -> bool {
    let is_there = || {
        Path::new(OsStr::from_bytes(path))
            .symlink_metadata()
            .is_ok()
    };
    path.ends_with(REMOVED) && !is_there()
}

/// Names (link(2)) of a file whose name was removed.
pub enum Named {
    /// It has none, and goes with the last descriptor.
    Not,
    /// One in the same directory.
    By(Vec<u8>),
    /// Some that are not there.
    Elsewhere,
}

/// Looks for another name of the file that the kernel gives this path.
pub fn other_name(about: &libc::stat, path: &[u8]) -> Named {
    if about.st_nlink == 0 || !is_nameless(path) {
        return Named::Not;
    }
    let directory = Path::new(OsStr::from_bytes(path)).parent();
    let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
    let is_it = |entry: &fs::DirEntry| {
        let is_same = |its: Metadata| (its.dev(), its.ino()) == (about.st_dev, about.st_ino);
        entry.ino() == about.st_ino && entry.metadata().is_ok_and(is_same)
    };
    let mut backups = 0;
    for entry in entries.into_iter().flatten().flatten().filter(is_it) {
        if !is_backup(&entry.path()) {
            return Named::By(entry.path().into_os_string().into_vec());
        }
        backups += 1;
    }
    if backups == about.st_nlink {
        Named::Not
    } else {
        Named::Elsewhere
    }
}

/// The path by which a file can be opened, or the kernel's if there is none.
pub fn present_name(about: &libc::stat, path: &[u8]) -> Vec<u8> {
    match other_name(about, path) {
        Named::By(name) => name,
        _ => path.to_vec(),
    }
}

/// The name that such a file has had.
pub fn former(path: &Path) -> Option<&Path> {
    let bytes = path.as_os_str().as_bytes();
    let before = bytes.strip_suffix(REMOVED).filter(|_| is_nameless(bytes))?;
    Some(Path::new(OsStr::from_bytes(before)))
}

/// Reads the files that have no name. What is too long is told once.
pub fn keep(files: &mut BTreeMap<i32, Open>, has_warned: &Cell<bool>) {
    let mut room = MOST;
    let mut read: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (&fd, file) in files {
        if file.same_as.is_some() || !is_nameless(&file.path) || !is_regular(fd) {
            continue;
        }
        if !read.insert(file.id) {
            file.nameless = Some(Nameless::of(fd, file.id, None));
            continue;
        }
        match content(fd, file.flags, room) {
            Ok(Some(content)) => {
                room -= content.len();
                file.nameless = Some(Nameless::of(fd, file.id, Some(content)));
            }
            Ok(None) if has_warned.replace(true) => {}
            Ok(None) => log::warn!(
                "{} has no name and {} bytes, too many to be kept with each checkpoint; nobody can take this process's part",
                String::from_utf8_lossy(&file.path),
                file.size
            ),
            Err(error) => log::warn!(
                "{} cannot be read: {error}",
                String::from_utf8_lossy(&file.path)
            ),
        }
    }
}

/// Whether this is a file with content, and no directory or device.
pub fn is_regular(fd: i32) -> bool {
    stat(fd).is_some_and(|about| about.st_mode & libc::S_IFMT == libc::S_IFREG)
}

/// What is in a file; `None` if that is longer than `room`. Read by the program's descriptor where that can be: to close another one of
/// the file ends the locks that the program has on it (fcntl(2)).
fn content(fd: i32, flags: i32, room: usize) -> io::Result<Option<Vec<u8>>> {
    // SAFETY: the program's descriptor, which stays open.
    let own = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let length = own.metadata()?.len();
    if length > room as u64 {
        return Ok(None);
    }
    let mut content = vec![0; length as usize];
    match flags & libc::O_ACCMODE {
        libc::O_WRONLY => File::open(within(fd))?.read_exact_at(&mut content, 0)?,
        _ => own.read_exact_at(&mut content, 0)?,
    }
    Ok(Some(content))
}

impl Nameless {
    fn of(fd: i32, id: (u64, u64), content: Option<Vec<u8>>) -> Nameless {
        Nameless {
            id,
            content,
            seals: memory_file::seals(fd),
            mode: stat(fd).map_or(0o600, |about| about.st_mode & 0o7777),
        }
    }

    /// Returns true for a descriptor of that file, unless it has further seals, which stay.
    pub fn is_open_at(&self, fd: i32) -> bool {
        let is_sealed = || memory_file::seals(fd) & !self.seals != 0;
        let is_it = within(fd)
            .metadata()
            .is_ok_and(|about| (about.dev(), about.ino()) == self.id);
        is_it && !is_sealed()
    }

    /// The file that descriptor `fd` is to have: what another one of `all` has open already, or a new one.
    pub fn open_or_make(&self, fd: i32, all: &BTreeMap<i32, Open>) -> io::Result<File> {
        let is_same = |open: &Open| open.nameless.as_ref().is_some_and(|it| it.id == self.id);
        // Lower descriptors have been put back; a higher one may be open still.
        let is_there = |other: i32| other < fd || (other > fd && self.is_open_at(other));
        let twin = all
            .iter()
            .find(|&(&other, open)| is_there(other) && is_same(open));
        twin.map_or_else(
            || Nameless::make(&all[&fd]),
            |(&other, _)| File::open(within(other)),
        )
    }

    /// Makes an empty one like `file`: in the same directory, or in memory where that cannot be.
    fn make(file: &Open) -> io::Result<File> {
        let path = Path::new(OsStr::from_bytes(&file.path));
        let is_in_memory = memory_file::is_its_name(&file.path);
        let directory = path.parent().filter(|_| !is_in_memory);
        let like = |directory| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(0o600);
            options.custom_flags(libc::O_TMPFILE).open(directory).ok()
        };
        if let Some(made) = directory.and_then(like) {
            return Ok(made);
        }
        memory_file::make(&file.path)
    }

    /// Gives a file its content, mode and seals again, if these are other ones.
    ///
    /// The descriptor may be one for reading only.
    pub fn fill(&self, fd: i32, flags: i32) -> io::Result<()> {
        let Some(then) = &self.content else {
            return Ok(());
        };
        if content(fd, flags, then.len())?.as_ref() != Some(then) {
            let file = OpenOptions::new().write(true).open(within(fd))?;
            file.set_len(then.len() as u64)?;
            file.write_all_at(then, 0)?;
        }
        let is_other = |about: Metadata| about.mode() & 0o7777 != self.mode;
        if within(fd).metadata().is_ok_and(is_other) {
            fs::set_permissions(within(fd), fs::Permissions::from_mode(self.mode))?;
        }
        memory_file::seal(fd, self.seals)
    }
}
