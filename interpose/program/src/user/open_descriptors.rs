//! Open descriptors of the program.
#![allow(unsafe_code)]

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use understudy_abi::RUNTIME_FD_BASE;

/// Descriptors of all sides that were open at the last listing.
static LISTED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Returns the open descriptors of the program side, in order.
///
/// Reading the directory is slow, so the last listing is used if no descriptor can have changed:
/// the size of `/proc/self/fd`, the number of open descriptors (Linux 6.2), is equal, and poll(2)
/// finds all listed descriptors open. (To poll(2), a descriptor that was opened with O_PATH looks
/// closed. So the directory is always read if the program has one.)
pub(super) fn descriptors() -> Vec<i32> {
    // The lock is not held during the system calls.
    let mut listed = std::mem::take(&mut *lock());
    let count = std::fs::metadata("/proc/self/fd").map_or(0, |metadata| metadata.len());
    if listed.len() as u64 != count || !are_open(&listed) {
        listed = listed_descriptors();
    }
    let is_programs = |fd: &i32| (0..RUNTIME_FD_BASE).contains(fd);
    let found = listed.iter().copied().filter(is_programs).collect();
    *lock() = listed;
    found
}

fn lock() -> MutexGuard<'static, Vec<i32>> {
    LISTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if all of these descriptors are open (poll(2)).
fn are_open(descriptors: &[i32]) -> bool {
    let polled = |&fd: &i32| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    let mut all: Vec<libc::pollfd> = descriptors.iter().map(polled).collect();
    // SAFETY: the passed number of structures; the call does not block.
    let rc = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, 0) };
    rc >= 0
        && all
            .iter()
            .all(|polled| polled.revents & libc::POLLNVAL == 0)
}

/// Returns the descriptors that `/proc/self/fd` lists, except that of the listing itself.
fn listed_descriptors() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let mut list: Vec<i32> = entries.filter_map(number).collect();
    // SAFETY: fcntl(2) that only queries.
    list.retain(|&fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0);
    list.sort_unstable();
    list
}

/// Returns the events that a descriptor has now, among `wanted` (poll(2)).
///
/// The kernel additionally reports hang-ups and errors.
pub fn events(fd: i32, wanted: i16) -> i16 {
    events_within(fd, wanted, Duration::ZERO)
}

/// Waits for one of the `wanted` events of a descriptor, and returns its events.
///
/// Zero if none occurs within `limit`.
pub fn events_within(fd: i32, wanted: i16, limit: Duration) -> i16 {
    let mut polled = libc::pollfd {
        fd,
        events: wanted,
        revents: 0,
    };
    let start = Instant::now();
    loop {
        let left = limit.saturating_sub(start.elapsed()).as_millis() as i32;
        // SAFETY: poll(2) of one descriptor.
        let rc = unsafe { libc::poll(&raw mut polled, 1, left) };
        // A signal may end the call early.
        if rc >= 0 || left == 0 {
            return polled.revents;
        }
    }
}

/// Returns the status of an open file (fstat(2)).
pub(super) fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: fstat(2) fills the structure.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    }
}

/// Returns the kernel's link for a descriptor.
pub(super) fn link_of(fd: i32) -> PathBuf {
    format!("/proc/self/fd/{fd}").into()
}

/// Returns the kernel's path of an open file.
pub(super) fn path_of(fd: i32) -> PathBuf {
    std::fs::read_link(link_of(fd)).unwrap_or_default()
}

/// True if two descriptors share one open file description.
pub(super) fn is_same_description(one: i32, other: i32) -> bool {
    compare_descriptions(one, other) == Some(true)
}

/// Returns true if two descriptors share one open file description.
///
/// `None` if the kernel does not permit the comparison (kcmp(2)), or a descriptor is closed.
pub(super) fn compare_descriptions(one: i32, other: i32) -> Option<bool> {
    const KCMP_FILE: i32 = 0;
    // SAFETY: kcmp(2) with KCMP_FILE accesses no memory.
    let order = unsafe {
        let pid = libc::getpid();
        libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, one, other)
    };
    (order >= 0).then_some(order == 0)
}
