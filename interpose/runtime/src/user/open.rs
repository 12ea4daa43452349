//! Descriptors that the program has open.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicI32, Ordering};
use understudy_abi::RUNTIME_FD_BASE;

/// Most descriptors that one call of poll(2) covers.
const MAX_POLLED: i32 = 4096;

/// Number of descriptors that one call of poll(2) covers.
static POLLED: AtomicI32 = AtomicI32::new(RUNTIME_FD_BASE);

/// Returns the open descriptors of the program side.
///
/// One call of poll(2) finds all but those that are open for their names alone (O_PATH). The size
/// of `/proc/self/fd` tells whether there are any (Linux 6.2); then the directory is read.
pub(super) fn descriptors() -> Vec<i32> {
    let polled = polled_descriptors(POLLED.load(Ordering::Relaxed));
    let count = std::fs::metadata("/proc/self/fd").map_or(0, |about| about.len());
    if polled.len() as u64 != count {
        return listed_descriptors();
    }
    let is_programs = |fd: &i32| *fd < RUNTIME_FD_BASE;
    polled.into_iter().take_while(is_programs).collect()
}

/// Returns the descriptors below `limit` of which poll(2) says that they are open.
fn polled_descriptors(limit: i32) -> Vec<i32> {
    let polled = |fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    let mut all: Vec<libc::pollfd> = (0..limit).map(polled).collect();
    // SAFETY: as many structures as are named; nothing is waited for.
    let rc = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, 0) };
    let is_open = |polled: &&libc::pollfd| rc >= 0 && polled.revents & libc::POLLNVAL == 0;
    all.iter().filter(is_open).map(|polled| polled.fd).collect()
}

/// Returns the descriptors of the program side that `/proc/self/fd` lists.
fn listed_descriptors() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let number =
        |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let mut list: Vec<i32> = entries.filter_map(number).collect();
    let highest = list.iter().max().map_or(0, |highest| highest + 1);
    POLLED.store(
        highest.clamp(RUNTIME_FD_BASE, MAX_POLLED),
        Ordering::Relaxed,
    );
    list.retain(|fd| (0..RUNTIME_FD_BASE).contains(fd));
    list.sort_unstable();
    list
}

/// Returns which of these events a descriptor has now (poll(2)).
///
/// The kernel always reports hang-ups and errors, too.
pub fn events(fd: i32, wanted: i16) -> i16 {
    let mut polled = libc::pollfd {
        fd,
        events: wanted,
        revents: 0,
    };
    // SAFETY: poll(2) of one descriptor; nothing is waited for.
    unsafe { libc::poll(&raw mut polled, 1, 0) };
    polled.revents
}

pub(super) fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: fstat(2) fills the structure.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    }
}
