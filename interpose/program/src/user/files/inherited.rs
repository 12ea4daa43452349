//! Descriptors that the process inherited at its start.
#![allow(unsafe_code)]

use super::streams;
use crate::user::open_descriptors::{compare_descriptions, path_of, stat};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use understudy_abi::RUNTIME_FD_BASE;

/// Object that a descriptor referred to at the start.
#[derive(Debug)]
pub struct Inherited {
    fd: i32,
    /// Device and inode.
    id: (u64, u64),
    anonymous: Option<AnonymousInode>,
}

/// Eventfd, epoll set or similar object.
///
/// All these objects share one inode. Their kernel names (`anon_inode:[eventfd]`) show only the
/// kind: two eventfds look equal.
#[derive(Debug)]
struct AnonymousInode {
    name: Vec<u8>,
    /// Further descriptor of the object, with which others are compared; `None` on failure.
    duplicate: Option<OwnedFd>,
}

impl AnonymousInode {
    /// Returns the object of a descriptor; `None` for files, pipes and sockets.
    fn from_fd(fd: i32) -> Option<AnonymousInode> {
        let name = path_of(fd).as_os_str().as_bytes().to_vec();
        if !name.starts_with(b"anon_inode:") {
            return None;
        }
        // SAFETY: fcntl(2) accesses no memory; this value owns the new descriptor.
        let duplicate = unsafe {
            let duplicate = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, RUNTIME_FD_BASE);
            (duplicate >= 0).then(|| OwnedFd::from_raw_fd(duplicate))
        };
        Some(AnonymousInode { name, duplicate })
    }

    /// True if a descriptor refers to the object.
    ///
    /// Only the kinds are compared if the kernel does not compare objects.
    fn is_open_as(&self, fd: i32) -> bool {
        let compare = |duplicate: &OwnedFd| compare_descriptions(duplicate.as_raw_fd(), fd);
        let is_same = self.duplicate.as_ref().and_then(compare);
        is_same.unwrap_or_else(|| path_of(fd).as_os_str().as_bytes() == self.name)
    }
}

impl Inherited {
    /// Returns the object that a descriptor refers to.
    pub fn from_fd(fd: i32) -> Option<Inherited> {
        let file_stat = stat(fd)?;
        Some(Inherited {
            fd,
            id: (file_stat.st_dev, file_stat.st_ino),
            anonymous: AnonymousInode::from_fd(fd),
        })
    }

    /// True if the descriptor still refers to its object from the start.
    ///
    /// False for standard output and error, which understudy has replaced by pipes.
    fn is_unchanged(&self) -> bool {
        let is_same_inode = stat(self.fd).is_some_and(|stat| (stat.st_dev, stat.st_ino) == self.id);
        let is_same_object = || {
            let anonymous = self.anonymous.as_ref();
            anonymous.is_none_or(|object| object.is_open_as(self.fd))
        };
        is_same_inode && !streams::was_stream(self.fd) && is_same_object()
    }
}

/// True if the descriptor still refers to the object that the process has inherited.
pub fn is_inherited(all: &[Inherited], fd: i32) -> bool {
    all.iter()
        .any(|inherited| inherited.fd == fd && inherited.is_unchanged())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eventfd() -> OwnedFd {
        // SAFETY: eventfd(2) accesses no memory; the caller owns the new descriptor.
        unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC)) }
    }

    #[test]
    fn a_new_eventfd_at_the_number_of_an_inherited_one_is_not_inherited() {
        let (launchers, programs) = (eventfd(), eventfd());
        let fd = launchers.as_raw_fd();
        let inherited = [Inherited::from_fd(fd).unwrap()];
        assert!(is_inherited(&inherited, fd));
        // SAFETY: dup3(2) replaces a descriptor of this test.
        let replaced = unsafe { libc::dup3(programs.as_raw_fd(), fd, libc::O_CLOEXEC) };
        assert_eq!(replaced, fd);
        assert!(!is_inherited(&inherited, fd));
    }

    #[test]
    fn a_renamed_or_removed_file_stays_inherited() {
        let name = |end: &str| {
            let name = format!("inherited-{}-{end}", std::process::id());
            std::env::temp_dir().join(name)
        };
        let (first, second) = (name("first"), name("second"));
        let file = std::fs::File::create(&first).unwrap();
        let fd = file.as_raw_fd();
        let inherited = [Inherited::from_fd(fd).unwrap()];
        std::fs::rename(&first, &second).unwrap();
        let is_inherited_by_second_name = is_inherited(&inherited, fd);
        std::fs::remove_file(&second).unwrap();
        assert!(is_inherited_by_second_name && is_inherited(&inherited, fd));
    }
}
