//! Content of pipes of which this process has both ends.
#![allow(unsafe_code)]

use crate::user::open_descriptors;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

/// Maximum length of content that is saved, in bytes.
const MAX_CONTENT: usize = 16 << 20;

/// True for an end of a pipe that can only be read.
pub fn is_read_end(fd: i32) -> bool {
    // SAFETY: fcntl(2) that only queries.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags & libc::O_ACCMODE == libc::O_RDONLY
}

/// True if no process has the other end of the pipe.
pub fn is_orphan(fd: i32) -> bool {
    open_descriptors::events(fd, 0) & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Returns the number of bytes in the pipe.
fn unread_bytes(fd: i32) -> usize {
    let mut count = 0;
    // SAFETY: ioctl(2) that fills a number.
    let rc = unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) };
    if rc == 0 { count as usize } else { 0 }
}

/// Returns the capacity of the pipe in bytes.
pub fn capacity(fd: i32) -> i32 {
    // SAFETY: fcntl(2) that only queries.
    unsafe { libc::fcntl(fd, libc::F_GETPIPE_SZ) }
}

/// Returns a copy of the pipe's content.
pub fn content(fd: i32) -> Vec<u8> {
    let length = unread_bytes(fd).min(MAX_CONTENT);
    let mut ends = [0; 2];
    let mut bytes = vec![0; length];
    // SAFETY: pipe2(2), fcntl(2), tee(2), read(2), close(2) with the program's descriptor, and
    // descriptors and a buffer of this function.
    unsafe {
        if length == 0 || libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
            return Vec::new();
        }
        libc::fcntl(ends[1], libc::F_SETPIPE_SZ, capacity(fd));
        let copied = libc::tee(fd, ends[1], length, libc::SPLICE_F_NONBLOCK).max(0);
        let count = libc::read(ends[0], bytes.as_mut_ptr().cast(), copied as usize).max(0);
        bytes.truncate(count as usize);
        for end in ends {
            libc::close(end);
        }
    }
    bytes
}

/// Returns the reason why an end of a pipe cannot be saved.
pub fn objection(fd: i32) -> Option<String> {
    // SAFETY: fcntl(2) that only queries.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags & libc::O_DIRECT != 0 {
        return Some("it preserves message boundaries (O_DIRECT); make it without O_DIRECT".into());
    }
    let length = unread_bytes(fd);
    let is_read = flags & libc::O_ACCMODE == libc::O_RDONLY;
    (is_read && length > 0 && content(fd).len() != length).then(|| {
        format!("it holds {length} bytes, too many to be kept; let the program read them sooner")
    })
}

/// Discards the content, and sets the status flags of the descriptor.
pub fn empty(fd: i32, flags: i32) {
    let mut bytes = [0u8; 4096];
    // SAFETY: fcntl(2), and read(2) into a buffer of this function.
    unsafe {
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        while libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) > 0 {}
        libc::fcntl(fd, libc::F_SETFL, flags);
    }
}

/// Replaces content and capacity of the pipe.
pub fn refill(fd: i32, flags: i32, capacity: i32, bytes: &[u8]) -> io::Result<()> {
    empty(fd, flags);
    // SAFETY: fcntl(2) accesses no memory. A capacity that is too small is detected below.
    unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, capacity) };
    // Opens the write end, whichever end `fd` is.
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    options
        .open(format!("/proc/self/fd/{fd}"))?
        .write_all(bytes)
}
