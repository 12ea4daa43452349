//! Names of the kinds of descriptors that [`crate::kernel_state::DESCRIPTORS`] lists.
#![allow(unsafe_code)]

use super::sockets::LocalSockets;
use super::{former_name, memory_file, pipes, posix_queues, proc_names, sockets};
use crate::user::open_descriptors::{path_of, stat};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

/// File systems whose regular files are special objects (statfs(2)).
const FILE_SYSTEMS: [(i64, &str); 4] = [
    (0x958_458f6, "hugetlbfs"),
    (0x5345_434d, "memfd_secret"),
    (posix_queues::FILE_SYSTEM, "mqueue"),
    (0x6e73_6673, "namespace"),
];
const PROC: i64 = 0x9fa0;

/// Character devices that are identified by their numbers, independently of their paths.
const DEVICES: [((u32, u32), &str); 5] = [
    ((1, 3), "/dev/null"),
    ((1, 5), "/dev/zero"),
    ((1, 7), "/dev/full"),
    ((1, 8), "/dev/random"),
    ((1, 9), "/dev/urandom"),
];

/// Returns the name of the kind of each of these descriptors.
pub fn kinds_of(open: &[(i32, libc::stat)], sockets: &LocalSockets) -> BTreeMap<i32, String> {
    let peers = Peers { open, sockets };
    open.iter()
        .map(|(fd, file_stat)| (*fd, kind_of(*fd, file_stat, &peers)))
        .collect()
}

/// Descriptors among which the other ends of pipes and sockets are searched.
struct Peers<'a> {
    open: &'a [(i32, libc::stat)],
    sockets: &'a LocalSockets,
}

impl Peers<'_> {
    /// True if another descriptor is the other end of the pipe.
    fn has_other_end(&self, fd: i32, file_stat: &libc::stat) -> bool {
        let is_read = pipes::is_read_end(fd);
        let is_same = |other: &libc::stat| {
            (other.st_dev, other.st_ino) == (file_stat.st_dev, file_stat.st_ino)
        };
        let mut all = self.open.iter();
        all.any(|(other, its)| is_same(its) && pipes::is_read_end(*other) != is_read)
    }
}

/// Returns the name of the kind of a descriptor.
fn kind_of(fd: i32, file_stat: &libc::stat, peers: &Peers<'_>) -> String {
    let path = path_of(fd);
    let path = path.as_os_str().as_bytes();
    let text = || String::from_utf8_lossy(path).into_owned();
    let has_name = !former_name::is_nameless(path);
    // SAFETY: fcntl(2) that only queries.
    let is_path_only = unsafe { libc::fcntl(fd, libc::F_GETFL) } & libc::O_PATH != 0;
    match (file_stat.st_mode & libc::S_IFMT, file_system(fd)) {
        (libc::S_IFREG | libc::S_IFDIR | libc::S_IFLNK, PROC) => proc_names::kind(path).into(),
        _ if is_path_only && !path.starts_with(b"/") => format!("path of {}", text()),
        _ if is_path_only && has_name => "path".into(),
        _ if is_path_only => "removed path".into(),
        (libc::S_IFREG, magic) => regular_kind(path, magic, has_name).into(),
        (libc::S_IFDIR, _) if has_name => "directory".into(),
        (libc::S_IFDIR, _) => "removed directory".into(),
        (libc::S_IFCHR, _) => device_kind(fd, file_stat).unwrap_or_else(text),
        (libc::S_IFIFO, _) if path.starts_with(b"/") => "fifo".into(),
        (libc::S_IFIFO, _) if pipes::is_orphan(fd) || peers.has_other_end(fd, file_stat) => {
            "pipe".into()
        }
        (libc::S_IFIFO, _) => "pipe:other".into(),
        (libc::S_IFSOCK, _) => sockets::kind(fd, file_stat.st_ino, peers.sockets),
        _ => text(),
    }
}

fn regular_kind(path: &[u8], magic: i64, has_name: bool) -> &'static str {
    let special = FILE_SYSTEMS.iter().find(|(number, _)| *number == magic);
    match special {
        Some((_, name)) => name,
        None if memory_file::is_memory_file_name(path) => "memfd",
        None if has_name => "file",
        None => "removed file",
    }
}

fn device_kind(fd: i32, file_stat: &libc::stat) -> Option<String> {
    let numbers = (
        libc::major(file_stat.st_rdev),
        libc::minor(file_stat.st_rdev),
    );
    if let Some((_, name)) = DEVICES.iter().find(|(known, _)| *known == numbers) {
        return Some((*name).into());
    }
    let is_same = |standard: &i32| {
        *standard != fd
            && stat(*standard).is_some_and(|its| {
                its.st_mode & libc::S_IFMT == libc::S_IFCHR && its.st_rdev == file_stat.st_rdev
            })
    };
    let mut standard = 0..=libc::STDERR_FILENO;
    standard
        .any(|fd| is_same(&fd))
        .then(|| "terminal:standard".into())
}

/// Returns the type of the file system of a descriptor.
fn file_system(fd: i32) -> i64 {
    // SAFETY: fstatfs(2) fills the structure.
    unsafe {
        let mut file_stat: libc::statfs = std::mem::zeroed();
        match libc::fstatfs(fd, &raw mut file_stat) {
            0 => file_stat.f_type as i64,
            _ => 0,
        }
    }
}
