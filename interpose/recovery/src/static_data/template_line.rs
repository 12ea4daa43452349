//! Polls of the line between a rank and its template process.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use understudy_wire::line::Line;

/// Waits until one of these descriptors can be read, or its other end has closed.
///
/// Returns the events of each. The timeout is in milliseconds; -1 means no timeout.
pub fn poll_descriptors(descriptors: &[i32], timeout: i32) -> Vec<i16> {
    let entry = |&fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut all: Vec<libc::pollfd> = descriptors.iter().map(entry).collect();
    // SAFETY: the array has the length that is passed.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, timeout) };
    all.iter().map(|descriptor| descriptor.revents).collect()
}

/// Returns true if the other end of a line has closed.
pub fn has_ended(line: &Line) -> bool {
    poll_descriptors(&[line.as_fd().as_raw_fd()], 0)[0] & libc::POLLHUP != 0
}
