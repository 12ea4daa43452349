//! Open files that another process can open by name, or create anew.
#![allow(unsafe_code)]

use super::former_name::{is_nameless, is_regular, present_name};
use super::nameless::{Nameless, content};
use super::posix_queues::is_queue;
use super::proc_names;
use crate::user::UserError;
use crate::user::open_descriptors::{is_same_description, path_of};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use understudy_catalogue::message;

/// Limit of the total content of files without a name, in bytes.
///
/// Every checkpoint of the process contains this content.
const MAX_CONTENT: usize = 64 << 20;

/// Open regular file, directory or character device, or a descriptor opened with O_PATH.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct OpenFile {
    pub path: Vec<u8>,
    /// Device and inode.
    pub id: (u64, u64),
    /// open(2) flags without those that create or truncate.
    pub flags: i32,
    pub close_on_exec: bool,
    pub offset: i64,
    pub size: i64,
    /// Lower descriptor of this open file description, if any.
    pub same_as: Option<i32>,
    /// Content of a file without a name.
    pub nameless: Option<Nameless>,
}

impl OpenFile {
    /// Returns the file of a descriptor; `None` for pipes, sockets and similar objects.
    ///
    /// Directories, devices and descriptors opened with O_PATH are returned if they are the
    /// program's (`is_programs`). `lower` lists lower descriptors, which may share the open file
    /// description.
    pub fn from_fd(
        fd: i32,
        stat: &libc::stat,
        is_programs: bool,
        lower: &[i32],
    ) -> Option<OpenFile> {
        // SAFETY: fcntl(2) that only queries.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        let has_name = match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG => !is_queue(fd),
            libc::S_IFDIR | libc::S_IFCHR => is_programs,
            _ => is_programs && flags & libc::O_PATH != 0,
        };
        if !has_name {
            return None;
        }
        let path = present_name(stat, path_of(fd).as_os_str().as_bytes());
        let is_same = |other: &&i32| is_same_description(fd, **other);
        // SAFETY: fcntl(2) with F_GETFD and lseek(2) access no memory.
        unsafe {
            Some(OpenFile {
                path: proc_names::neutral(&path),
                id: (stat.st_dev, stat.st_ino),
                flags,
                close_on_exec: libc::fcntl(fd, libc::F_GETFD) & libc::FD_CLOEXEC != 0,
                offset: libc::lseek(fd, 0, libc::SEEK_CUR),
                size: stat.st_size,
                same_as: lower.iter().find(is_same).copied(),
                nameless: None,
            })
        }
    }

    /// True if a descriptor that now refers to `now` can stay open for this file.
    ///
    /// Otherwise this file is opened again. The descriptor can stay open if the paths of both files
    /// are equal. In a process that rolls back (`is_survivor`), equal inodes suffice, because the
    /// program may have renamed or removed the file since the cut. One case is excluded: the
    /// program has removed the file, and the rollback has restored its name. Then the name may
    /// refer to a copy with another inode, and the copy must be opened.
    pub fn is_open_as(&self, now: &OpenFile, is_survivor: bool) -> bool {
        let is_name_restored = || {
            Path::new(OsStr::from_bytes(&self.path))
                .symlink_metadata()
                .is_ok()
        };
        let may_stay_open = || !is_nameless(&now.path) || !is_name_restored();
        now.path == self.path || (is_survivor && now.id == self.id && may_stay_open())
    }

    /// Returns an error that contains the error of the last system call.
    pub fn failed(&self, action: &str) -> UserError {
        let error = std::io::Error::last_os_error();
        UserError::File {
            path: String::from_utf8_lossy(&self.path).into_owned(),
            why: format!("{action}: {error}"),
        }
    }

    /// True if the program may write to the file.
    pub fn is_writable(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }
}

/// Reads the content of files without a name.
///
/// Warns once of files that are too long.
pub fn keep_nameless(files: &mut BTreeMap<i32, OpenFile>, has_warned: &Cell<bool>) {
    let mut remaining = MAX_CONTENT;
    let mut read: BTreeSet<(u64, u64)> = BTreeSet::new();
    for (&fd, file) in files {
        if file.same_as.is_some() || !is_nameless(&file.path) || !is_regular(fd) {
            continue;
        }
        if !read.insert(file.id) {
            file.nameless = Some(Nameless::new(fd, file.id, None));
            continue;
        }
        match content(fd, file.flags, remaining) {
            Ok(Some(content)) => {
                remaining -= content.len();
                file.nameless = Some(Nameless::new(fd, file.id, Some(content)));
            }
            Ok(None) if has_warned.replace(true) => {}
            Ok(None) => log::warn!(
                "{}",
                message::nameless_file_too_large(String::from_utf8_lossy(&file.path), file.size)
            ),
            Err(error) => log::warn!(
                "{}",
                message::nameless_file_unreadable(String::from_utf8_lossy(&file.path), error)
            ),
        }
    }
}
