//! Descriptors that the program has open.
#![allow(unsafe_code)]

use understudy_abi::RUNTIME_FD_BASE;

/// Returns the open descriptors of the program side.
///
/// One system call suffices: poll(2) reports the descriptors that are not open.
pub(super) fn descriptors() -> Vec<i32> {
    let ask = |fd| libc::pollfd {
        fd,
        events: 0,
        revents: 0,
    };
    let mut all: Vec<libc::pollfd> = (0..RUNTIME_FD_BASE).map(ask).collect();
    // SAFETY: as many structures as are named; nothing is waited for.
    let rc = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, 0) };
    if rc < 0 {
        // A process may be allowed fewer descriptors than these.
        return listed_descriptors();
    }
    let open = all
        .iter()
        .filter(|polled| polled.revents & libc::POLLNVAL == 0);
    open.map(|polled| polled.fd).collect()
}

pub(super) fn listed_descriptors() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    let mut list: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    list.retain(|fd| (0..RUNTIME_FD_BASE).contains(fd));
    list.sort_unstable();
    list
}

pub(super) fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: fstat(2) fills the structure.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    }
}
