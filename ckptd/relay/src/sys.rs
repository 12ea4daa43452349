//! System calls of relay and ledger, with errors as `io::Error`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Maps the first `len` bytes of `file` shared (mmap(2)).
pub(super) fn map_shared(file: &File, len: usize, writable: bool) -> io::Result<NonNull<u8>> {
    let protection = if writable {
        libc::PROT_READ | libc::PROT_WRITE
    } else {
        libc::PROT_READ
    };
    // SAFETY: a new mapping at an address that the kernel chooses affects no memory in use.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            len,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(start.cast()).expect("mmap returns no null pointer without MAP_FIXED"))
}

/// # Safety
/// `at` and `len` describe a mapping of [`map_shared`] to which no references exist any more.
pub(super) unsafe fn unmap(at: NonNull<u8>, len: usize) {
    // SAFETY: the caller guarantees that the mapping exists and is not referenced.
    unsafe { libc::munmap(at.as_ptr().cast(), len) };
}

/// Allocates the blocks of a file (posix_fallocate(3)).
///
/// A full file system causes an error here instead of a later `SIGBUS`.
pub(super) fn allocate(file: &File, len: usize) -> io::Result<()> {
    // SAFETY: the arguments are a descriptor and numbers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Tries to lock a file (flock(2)).
///
/// Returns `false` if another open file description has the lock.
pub(super) fn try_lock(file: &File, exclusive: bool) -> io::Result<bool> {
    let how = if exclusive {
        libc::LOCK_EX
    } else {
        libc::LOCK_SH
    };
    // SAFETY: the arguments are a descriptor and flags.
    match check(unsafe { libc::flock(file.as_raw_fd(), how | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn unlock(file: &File) {
    // SAFETY: the arguments are a descriptor and flags.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
}

/// Returns the number of bytes in a pipe; either end can be used.
pub(super) fn unread(fd: RawFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD stores one int at the given pointer.
    check(unsafe { libc::ioctl(fd, libc::FIONREAD, &mut bytes) })?;
    Ok(bytes as u64)
}

pub(super) fn is_pipe(fd: RawFd) -> bool {
    // SAFETY: all zeros are a valid `stat`, a plain C structure of integers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is writable; a bad descriptor only makes fstat fail.
    unsafe { libc::fstat(fd, &mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFIFO }
}

/// Waits until `fd` is ready for `events` or has an error or hang-up.
///
/// Returns the events that have occurred, or 0 after `timeout`.
pub(super) fn poll(
    fd: RawFd,
    events: libc::c_short,
    timeout: Option<Duration>,
) -> io::Result<libc::c_short> {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let millis = timeout.map_or(-1, |t| t.as_millis().min(i32::MAX as u128) as libc::c_int);
    loop {
        // SAFETY: the pointer refers to one pollfd.
        match check(unsafe { libc::poll(&mut entry, 1, millis) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|_| entry.revents),
        }
    }
}

/// True if this write end's pipe has no reader, or the descriptor is not open.
///
/// poll(2) reports `POLLERR` or `POLLNVAL`.
pub(super) fn has_no_reader(fd: RawFd) -> bool {
    poll(fd, 0, Some(Duration::ZERO)).is_ok_and(|seen| seen & (libc::POLLERR | libc::POLLNVAL) != 0)
}

/// Capacity that marks the pipe of a relay without a ledger (fcntl(2), `F_SETPIPE_SZ`).
///
/// The default capacity is half of it. Both ends of a pipe can read the capacity, and the rank has
/// no other connection to the relay.
const NO_LEDGER_CAPACITY: libc::c_int = 128 * 1024;

/// Marks a pipe, so that the rank at its other end expects no ledger.
pub(super) fn mark_without_ledger(fd: RawFd) {
    // SAFETY: fcntl(2) with a descriptor and a number. If the limit for pipes is reached (pipe(7)),
    // the call fails and the other end waits until its timeout.
    unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, NO_LEDGER_CAPACITY) };
}

/// True if the relay at the other end has no ledger.
pub(super) fn is_marked_without_ledger(fd: RawFd) -> bool {
    // SAFETY: fcntl(2) with a descriptor only.
    unsafe { libc::fcntl(fd, libc::F_GETPIPE_SZ) == NO_LEDGER_CAPACITY }
}

pub(super) fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is writable over its whole length.
    let count = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    if count < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(count as usize)
    }
}

pub(super) fn write(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are readable over their whole length.
    let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    if count < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(count as usize)
    }
}

/// Makes reads of this descriptor fail with `EAGAIN` instead of waiting.
pub(super) fn set_nonblocking(fd: RawFd) {
    // SAFETY: the arguments are a descriptor and flags; after a failure the descriptor is
    // unchanged.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags >= 0 {
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
    }
}

/// Isolates this process, so that it exits only at the end of its input.
///
/// The process gets a session of its own, ignores the signals that a terminal, a launcher or a
/// limit sends, reads /dev/null as its standard input, and has no descriptors from
/// `first_foreign_fd` on (setsid(2), signal(7), close_range(2)).
pub(super) fn detach(name: &std::ffi::CStr, first_foreign_fd: RawFd) {
    const IGNORED_SIGNALS: [libc::c_int; 11] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGPIPE,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGTSTP,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGALRM,
    ];
    for signal in IGNORED_SIGNALS {
        // SAFETY: SIG_IGN is a valid disposition for each of these signals.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: the function is called before the relay opens a descriptor or starts a thread, so
    // that no closed descriptor belongs to a Rust object; the names are C strings. setsid(2) may
    // fail for a group leader, without any effect.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        libc::close_range(first_foreign_fd as libc::c_uint, libc::c_uint::MAX, 0);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if null > libc::STDIN_FILENO {
            libc::dup2(null, libc::STDIN_FILENO);
            libc::close(null);
        }
    }
}
