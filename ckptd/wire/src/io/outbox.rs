//! Bytes for a non-blocking descriptor.

use std::io::{self, ErrorKind, Write};
use thiserror::Error;

/// Number of sent bytes after which the remaining bytes are moved to the front.
const COMPACTION_BYTES: usize = 64 << 10;

/// Bytes that wait until a descriptor accepts them.
///
/// The outbox is bounded. After an error of the descriptor it is closed: it drops all waiting and
/// later bytes, and [`is_closed`](Outbox::is_closed) returns true.
#[derive(Debug)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Number of `bytes` that the descriptor has accepted.
    sent: usize,
    limit: usize,
    is_closed: bool,
}

/// Error of an outbox in which a message has no room.
///
/// No part of the message is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{waiting} bytes wait to be sent, and {message} more are too many")]
pub struct OutboxFull {
    /// Number of waiting bytes.
    pub waiting: usize,
    /// Length of the message in bytes.
    pub message: usize,
}

impl Outbox {
    /// Creates an empty outbox for at most `limit` bytes.
    pub const fn new(limit: usize) -> Outbox {
        Outbox {
            bytes: Vec::new(),
            sent: 0,
            limit,
            is_closed: false,
        }
    }

    /// Adds a message behind the waiting bytes.
    ///
    /// # Errors
    /// Fails with [`OutboxFull`] if more than `limit` bytes would wait, because the peer reads too
    /// slowly.
    pub fn push(&mut self, message: &[u8]) -> Result<(), OutboxFull> {
        if self.is_closed {
            return Ok(());
        }
        let waiting = self.len();
        if message.len() > self.limit.saturating_sub(waiting) {
            return Err(OutboxFull {
                waiting,
                message: message.len(),
            });
        }
        if self.sent >= COMPACTION_BYTES {
            self.bytes.drain(..std::mem::take(&mut self.sent));
        }
        self.bytes.extend_from_slice(message);
        Ok(())
    }

    /// Writes bytes until the descriptor accepts no more.
    ///
    /// # Errors
    /// Fails with errors of write(2), except `WouldBlock` and `Interrupted`; then the outbox is
    /// closed.
    pub fn flush(&mut self, mut to: impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match to.write(&self.bytes[self.sent..]) {
                Ok(0) => return Err(self.close(ErrorKind::WriteZero.into())),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(self.close(error)),
            }
        }
        self.clear();
        Ok(())
    }

    fn close(&mut self, error: io::Error) -> io::Error {
        self.clear();
        self.is_closed = true;
        error
    }

    /// Drops the waiting bytes.
    pub fn clear(&mut self) {
        (self.bytes, self.sent) = (Vec::new(), 0);
    }

    /// Returns the number of waiting bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// True if no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the descriptor has failed.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn pair() -> (UnixStream, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        (near, far)
    }

    #[test]
    fn bytes_wait_for_a_slow_reader_and_arrive_in_order() {
        let (near, mut far) = pair();
        let mut outbox = Outbox::new(usize::MAX);
        let mut expected = Vec::new();
        for number in 0..50u8 {
            let message = vec![number; 20_000];
            outbox.push(&message).unwrap();
            expected.extend(message);
            outbox.flush(&near).unwrap();
        }
        assert!(!outbox.is_empty(), "the kernel takes less than a megabyte");
        far.set_nonblocking(true).unwrap();
        let mut read = vec![0; expected.len()];
        let mut count = 0;
        while count < read.len() {
            count += far.read(&mut read[count..]).unwrap_or(0);
            outbox.flush(&near).unwrap();
        }
        assert!(read == expected && outbox.is_empty());
    }

    #[test]
    fn a_full_outbox_keeps_nothing_of_a_message() {
        let mut outbox = Outbox::new(10);
        outbox.push(b"1234567").unwrap();
        let full = outbox.push(b"8901").unwrap_err();
        assert_eq!(
            full,
            OutboxFull {
                waiting: 7,
                message: 4
            }
        );
        outbox.push(b"890").unwrap();
        let mut written = Vec::new();
        outbox.flush(&mut written).unwrap();
        assert_eq!(written, b"1234567890");
        assert!(outbox.push(b"1234567890").is_ok());
    }

    #[test]
    fn an_outbox_closes_when_the_other_end_does() {
        let (near, far) = pair();
        drop(far);
        let mut outbox = Outbox::new(10);
        outbox.push(b"a").unwrap();
        assert!(outbox.flush(&near).is_err());
        assert!(outbox.is_closed() && outbox.is_empty());
        assert!(outbox.push(&[0; 20]).is_ok() && outbox.is_empty());
        assert!(outbox.flush(&near).is_ok());
    }
}
