//! Creation of a template process, which is not a child of the rank.
#![allow(unsafe_code)]

use super::blocked_signals::BlockedSignals;
use super::template_work::serve;
use crate::Runtime;
use crate::user::signals;
use crate::{reinit, shim, system_calls};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use understudy_catalogue::message;
use understudy_wire::line::Line;

/// Returns the two ends of a line.
fn pair() -> io::Result<[Line; 2]> {
    let mut ends = [0; 2];
    // SAFETY: socketpair(2), whose descriptors are new.
    unsafe {
        if libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC,
            0,
            ends.as_mut_ptr(),
        ) != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(ends.map(|end| Line::from(OwnedFd::from_raw_fd(system_calls::move_descriptor(end)))))
    }
}

/// Opens the lock file that serialises the trial replays of a node.
///
/// Each replay takes as much memory as its worker has set up, so several replays at a time could
/// exceed the memory of the node.
fn open_lock_file() -> io::Result<File> {
    let path = reinit::directory().join("rehearsals");
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// Forks the template process of this process, which must be at the end of `MPI_Init`.
pub fn fork_template(rt: &Runtime) {
    match fork(rt) {
        Ok(line) => rt.static_data.template.attach(line),
        Err(error) => {
            log::warn!("{}", message::no_replay_process(error))
        }
    }
}

/// Forks a template process; returns the line to it.
///
/// Forks twice: the first child forks the template process and exits at once, so that the template
/// process has no parent in the job and the rank keeps no child.
fn fork(rt: &Runtime) -> io::Result<Line> {
    let ([rank_end, template_end], lock_file) = (pair()?, open_lock_file()?);
    let blocked_signals = BlockedSignals::begin();
    // SAFETY: pidfd_open(2), whose descriptor is new, and fork(2); the children never return.
    unsafe {
        let owner = match libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) {
            -1 => return Err(io::Error::last_os_error()),
            // In a replay the program's descriptors must have the numbers that they had in the
            // phase.
            fd => OwnedFd::from_raw_fd(system_calls::move_descriptor(fd as i32)),
        };
        match shim::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                if libc::fork() == 0 {
                    let descriptors = [template_end.into(), owner, lock_file.into()];
                    serve(rt, descriptors, &blocked_signals);
                }
                libc::_exit(0)
            }
            child => {
                libc::waitpid(child, std::ptr::null_mut(), 0);
                // The program must not get a signal for a child that is not its own.
                signals::discard_pending(libc::SIGCHLD);
                Ok(rank_end)
            }
        }
    }
}
