//! Locks of files: flock(2) and fcntl(2).
//!
//! Such locks are in the kernel, so they do not roll back with the program's memory. A recovery
//! has two phases: first every process releases the locks that it has taken since the cut; then
//! every process takes the locks that it had at the cut. Without the first phase a process could
//! block forever on a lock that another process has taken after the cut.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

/// Time limit for taking the locks of a descriptor.
///
/// Another process may have locked the file.
const TAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// System call by which a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
enum LockKind {
    /// flock(2).
    File,
    /// fcntl(2), for the process.
    Process,
    /// fcntl(2), for the open file description.
    Description,
}

/// Lock of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct FileLock {
    kind: LockKind,
    is_exclusive: bool,
    start: i64,
    /// Length in bytes; zero extends to the end of a growing file.
    length: i64,
}

/// Parses `1: POSIX  ADVISORY  WRITE 359 00:13:11691 0 EOF` (proc(5), fdinfo).
fn parse(line: &str) -> Option<FileLock> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, kind, _, access, _, _, start, end] = words[..] else {
        return None;
    };
    let kind = match kind {
        "FLOCK" => LockKind::File,
        "POSIX" => LockKind::Process,
        "OFDLCK" => LockKind::Description,
        _ => return None,
    };
    let start = start.parse().ok()?;
    let length = match end {
        "EOF" => 0,
        last => last.parse::<i64>().ok()? - start + 1,
    };
    let is_exclusive = access == "WRITE";
    Some(FileLock {
        kind,
        is_exclusive,
        start,
        length,
    })
}

/// Returns the locks of a descriptor.
pub fn locks_of(fd: i32) -> Vec<FileLock> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
    text.lines()
        .filter_map(|line| parse(line.strip_prefix("lock:")?))
        .collect()
}

impl LockKind {
    /// Returns the command of fcntl(2).
    fn fcntl_command(self) -> i32 {
        match self {
            LockKind::Description => libc::F_OFD_SETLK,
            _ => libc::F_SETLK,
        }
    }

    fn release(self, fd: i32) {
        let all = record(libc::F_UNLCK, 0, 0);
        // SAFETY: flock(2), and fcntl(2) with a valid structure.
        unsafe {
            match self {
                LockKind::File => libc::flock(fd, libc::LOCK_UN),
                kind => libc::fcntl(fd, kind.fcntl_command(), &raw const all),
            }
        };
    }
}

/// Creates the structure for fcntl(2).
fn record(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

impl FileLock {
    fn take(&self, fd: i32) -> bool {
        let kind = if self.is_exclusive {
            libc::F_WRLCK
        } else {
            libc::F_RDLCK
        };
        let range = record(kind, self.start, self.length);
        let operation = if self.is_exclusive {
            libc::LOCK_EX
        } else {
            libc::LOCK_SH
        };
        // SAFETY: flock(2), and fcntl(2) with a valid structure. Neither call blocks.
        unsafe {
            match self.kind {
                LockKind::File => libc::flock(fd, operation | libc::LOCK_NB) == 0,
                kind => libc::fcntl(fd, kind.fcntl_command(), &raw const range) == 0,
            }
        }
    }
}

/// Releases the locks of a descriptor that are not in `saved`.
///
/// Even a single lock that is not in `saved` causes the release of all locks of its kind. [`take`]
/// then takes the saved locks again.
pub fn release(fd: i32, saved: &[FileLock]) {
    let now = locks_of(fd);
    for lock in now.iter().filter(|lock| !saved.contains(lock)) {
        lock.kind.release(fd);
    }
}

/// Takes the locks in `saved`; returns false if one cannot be taken within [`TAKE_TIMEOUT`].
pub fn take(fd: i32, saved: &[FileLock]) -> bool {
    let deadline = Instant::now() + TAKE_TIMEOUT;
    let mut missing: Vec<&FileLock> = saved.iter().collect();
    loop {
        let now = locks_of(fd);
        missing.retain(|lock| !now.contains(lock) && !lock.take(fd));
        if missing.is_empty() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn locks_are_found_released_and_taken() {
        let (file, other) = (tempfile(), tempfile());
        let fd = file.as_raw_fd();
        let all = [LockKind::File, LockKind::Process].map(|kind| FileLock {
            kind,
            is_exclusive: kind == LockKind::File,
            start: if kind == LockKind::File { 0 } else { 7 },
            length: if kind == LockKind::File { 0 } else { 3 },
        });
        assert!(take(fd, &all));
        let found = locks_of(fd);
        assert!(all.iter().all(|lock| found.contains(lock)), "{found:?}");
        release(fd, &all[..1]);
        assert_eq!(locks_of(fd), all[..1]);
        release(fd, &[]);
        assert_eq!(locks_of(fd), []);
        assert_eq!(locks_of(other.as_raw_fd()), []);
    }

    fn tempfile() -> std::fs::File {
        // SAFETY: memfd_create(2), whose new descriptor is used here only.
        unsafe {
            let fd = libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0);
            std::os::fd::FromRawFd::from_raw_fd(fd)
        }
    }
}
