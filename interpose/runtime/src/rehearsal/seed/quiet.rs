//! What a seed and its owner have in common: signals that wait, and lines that are looked at.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};
use understudy_wire::line::Line;

/// Whether something can be read there, or its other end has gone, within so many milliseconds; -1: whenever that is.
pub fn look(descriptors: &[i32], timeout: i32) -> Vec<i16> {
    let ask = |&fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut all: Vec<libc::pollfd> = descriptors.iter().map(ask).collect();
    // SAFETY: as many structures as are named.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, timeout) };
    all.iter().map(|it| it.revents).collect()
}

/// Whether the other end of a line has gone.
pub fn has_ended(line: &Line) -> bool {
    look(&[line.as_fd().as_raw_fd()], 0)[0] & libc::POLLHUP != 0
}

/// Signals that are blocked while this exists.
pub struct Quiet {
    before: libc::sigset_t,
}

impl Quiet {
    /// Blocks all.
    pub fn begin() -> Quiet {
        // SAFETY: plain system calls on sets of their own.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
            Quiet { before }
        }
    }

    pub fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        self.end();
        let result = work();
        std::mem::forget(Quiet::begin());
        result
    }

    fn end(&self) {
        // SAFETY: as above.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.end();
    }
}
