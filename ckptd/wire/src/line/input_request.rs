//! Requests of processes for standard input, which their guardian relays and stores.

use bincode::{Decode, Encode};
use std::sync::atomic::{AtomicU64, Ordering};

/// Request of a process to the guardian that relays the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum InputRequest {
    /// Requests the pipe that is being fed now.
    Present,
    /// Requests another pipe, which is fed from this position on.
    From { position: u64 },
}

/// Reply of the guardian.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub enum InputReply {
    /// A pipe is attached to this reply.
    ///
    /// The descriptors are the pipe's read end, the file of an [`InputPage`], and the pipe's write
    /// end. The write end is absent if the pipe already contains the rest of the input.
    Pipe,
    /// The pipe contains the rest of the input: its write end can be closed.
    Ended,
    /// The input before position `kept` has been released; no descriptors are attached.
    Released { kept: u64 },
}

/// Positions in the input, in bytes from its beginning.
#[repr(C)]
#[derive(Debug)]
pub struct InputPage {
    /// End of the current write to the pipe; equal to `written` if there is none.
    begun: AtomicU64,
    /// Number of bytes written to the pipe, plus the position at which the pipe began.
    written: AtomicU64,
    /// Length of the input; `u64::MAX` until its end has been read.
    length: AtomicU64,
    /// Position before which no process reads again; stored by the process that reads.
    released: AtomicU64,
}

impl InputPage {
    /// Prepares a page of zeros.
    pub fn begin(&self) {
        self.length.store(u64::MAX, Ordering::Release);
    }

    /// Records that a write up to `end` begins.
    pub fn begin_write(&self, end: u64) {
        self.begun.store(end, Ordering::SeqCst);
    }

    /// Records that the pipe contains the input up to `position`.
    pub fn end_write(&self, position: u64) {
        self.written.store(position, Ordering::SeqCst);
        self.begun.store(position, Ordering::SeqCst);
    }

    /// Records the length of the input.
    pub fn set_length(&self, length: u64) {
        self.length.store(length, Ordering::Release);
    }

    /// Returns the length of the input once its end has been read.
    pub fn length(&self) -> Option<u64> {
        let length = self.length.load(Ordering::Acquire);
        (length != u64::MAX).then_some(length)
    }

    /// Records that no process will read the input before `position` again.
    pub fn release(&self, position: u64) {
        self.released.store(position, Ordering::Release);
    }

    /// Returns the position before which no process will read again.
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Returns the position of the reader, if no write is in progress.
    ///
    /// `waiting` returns the number of bytes in the pipe. The reader's position is the position
    /// `written` minus this number: with 100 bytes written and 30 in the pipe, the position is 70.
    /// The two numbers cannot be read at once, so the relay stores the end of each write in `begun`
    /// before the write changes the pipe. No write has changed the pipe while its bytes were
    /// counted if `begun` and `written` afterwards have the value that `written` had before.
    /// Otherwise the result is `None`, and the caller tries again.
    pub fn position(&self, waiting: impl FnOnce() -> u64) -> Option<u64> {
        let written = self.written.load(Ordering::SeqCst);
        let waiting = waiting();
        let is_unchanged = |position: &AtomicU64| position.load(Ordering::SeqCst) == written;
        (is_unchanged(&self.begun) && is_unchanged(&self.written))
            .then(|| written.saturating_sub(waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> InputPage {
        let page = InputPage {
            begun: AtomicU64::new(0),
            written: AtomicU64::new(0),
            length: AtomicU64::new(0),
            released: AtomicU64::new(0),
        };
        page.begin();
        page
    }

    #[test]
    fn the_position_is_unknown_while_the_pipe_is_written() {
        let page = page();
        assert_eq!(page.position(|| 0), Some(0));
        page.begin_write(10);
        assert_eq!(page.position(|| 0), None);
        page.end_write(7);
        assert_eq!(page.position(|| 3), Some(4));
        let during_a_write = page.position(|| {
            page.begin_write(9);
            5
        });
        assert_eq!(during_a_write, None);
    }

    #[test]
    fn the_length_is_set_at_the_end() {
        let page = page();
        assert_eq!(page.length(), None);
        page.set_length(0);
        assert_eq!(page.length(), Some(0));
    }
}
