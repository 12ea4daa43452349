//! Descriptors of the program's output, at any number.
//!
//! A program may redirect its standard output temporarily, and keep the pipe at another descriptor
//! (dup(2), dup2(2)). The runtime has a descriptor of each pipe, so the program's descriptors can
//! be restored in any process.
#![allow(unsafe_code)]

use crate::user::output::stream_relay;

/// Descriptor of standard output or error.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Stream {
    stream: usize,
    close_on_exec: bool,
}

impl Stream {
    /// Returns the stream of a descriptor with this status, if it has one.
    pub fn from_fd(fd: i32, file_stat: &libc::stat) -> Option<Stream> {
        let stream = stream_relay::stream_of((file_stat.st_dev, file_stat.st_ino))?;
        // SAFETY: fcntl(2) that only queries.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        let close_on_exec = flags & libc::FD_CLOEXEC != 0;
        Some(Stream {
            stream,
            close_on_exec,
        })
    }

    /// Makes `fd` a descriptor of this stream.
    ///
    /// Returns false if the stream has no pipe in this process.
    pub fn duplicate_to(&self, fd: i32) -> bool {
        let mode = if self.close_on_exec {
            libc::O_CLOEXEC
        } else {
            0
        };
        // SAFETY: dup3(2); the program does not use the previous object of the descriptor.
        stream_relay::pipe_of(self.stream)
            .is_some_and(|pipe| unsafe { libc::dup3(pipe, fd, mode) == fd })
    }
}

/// True if a descriptor referred to an output stream at the start.
///
/// A descriptor that refers to something else now was changed by the program.
pub fn was_stream(fd: i32) -> bool {
    matches!(fd, libc::STDOUT_FILENO | libc::STDERR_FILENO)
        && stream_relay::pipe_of(fd as usize - 1).is_some()
}
