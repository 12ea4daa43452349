//! Readiness of one descriptor (poll(2)).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Operations for which a descriptor should be ready.
///
/// The end of a connection and an error make a descriptor ready for any interest, also for
/// [`Interest::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Interest {
    /// Reading does not block.
    pub reads: bool,
    /// Writing does not block.
    pub writes: bool,
}

impl Interest {
    pub const NONE: Interest = Interest::new(false, false);
    pub const READ: Interest = Interest::new(true, false);
    pub const WRITE: Interest = Interest::new(false, true);

    /// Creates an interest in reading, writing or both.
    pub const fn new(reads: bool, writes: bool) -> Interest {
        Interest { reads, writes }
    }

    fn flags(self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.reads);
        flags.set(PollFlags::OUT, self.writes);
        flags
    }
}

/// Waits until a descriptor is ready, for at most `limit`; `None` waits without limit.
///
/// Returns false after the limit, and after a signal, which may end the wait early.
///
/// # Errors
/// Fails with errors of poll(2), except `EINTR`.
pub fn wait_ready(
    descriptor: &(impl AsFd + ?Sized),
    interest: Interest,
    limit: impl Into<Option<Duration>>,
) -> io::Result<bool> {
    // A time that cannot be represented is longer than the life of any process.
    let limit = limit
        .into()
        .and_then(|limit| Timespec::try_from(limit).ok());
    let mut polls = [PollFd::from_borrowed_fd(
        descriptor.as_fd(),
        interest.flags(),
    )];
    match poll(&mut polls, limit.as_ref()) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_is_ready_for_what_it_can_do_and_at_its_end() {
        let (one, mut other) = UnixStream::pair().unwrap();
        assert!(!wait_ready(&one, Interest::READ, Duration::ZERO).unwrap());
        assert!(wait_ready(&one, Interest::WRITE, Duration::ZERO).unwrap());
        other.write_all(b"a").unwrap();
        assert!(wait_ready(&one, Interest::READ, None).unwrap());
        assert!(!wait_ready(&one, Interest::NONE, Duration::ZERO).unwrap());
        drop(other);
        assert!(wait_ready(&one, Interest::NONE, Duration::MAX).unwrap());
    }
}
