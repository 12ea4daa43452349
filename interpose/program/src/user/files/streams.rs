//! Descriptors of the program's own output, whatever their numbers are.
//!
//! A program may lead its standard output elsewhere for a while, and keep the pipe by another
//! descriptor (dup(2), dup2(2)). The layer has one of each pipe, so they can be given back in any
//! process.
#![allow(unsafe_code)]

use crate::user::output::stream_relay;

/// A descriptor of standard output or error.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Stream {
    stream: usize,
    close_on_exec: bool,
}

impl Stream {
    /// What a descriptor is that has been looked at.
    pub fn of(fd: i32, about: &libc::stat) -> Option<Stream> {
        let stream = stream_relay::stream_of((about.st_dev, about.st_ino))?;
        // SAFETY: fcntl(2) that only asks.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        let close_on_exec = flags & libc::FD_CLOEXEC != 0;
        Some(Stream {
            stream,
            close_on_exec,
        })
    }

    /// Makes a descriptor one of this stream's. False: it has no pipe here.
    pub fn put(&self, fd: i32) -> bool {
        let mode = if self.close_on_exec {
            libc::O_CLOEXEC
        } else {
            0
        };
        // SAFETY: dup3(2); what the descriptor was before is not the program's.
        stream_relay::pipe_of(self.stream)
            .is_some_and(|pipe| unsafe { libc::dup3(pipe, fd, mode) == fd })
    }
}

/// Whether a descriptor was one of these at the start, so that the program has made of it what it
/// is if it is none.
pub fn was_one(fd: i32) -> bool {
    matches!(fd, libc::STDOUT_FILENO | libc::STDERR_FILENO)
        && stream_relay::pipe_of(fd as usize - 1).is_some()
}
