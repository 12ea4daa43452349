//! Frames from a non-blocking descriptor.

use std::io::{self, ErrorKind, Read};

/// Maximum number of bytes that one read(2) transfers.
const CHUNK: usize = 64 << 10;

/// Assembler of messages from the bytes of a stream.
pub trait Decoder {
    /// Appends received bytes to those that are not decoded yet.
    fn feed(&mut self, bytes: &[u8]);
}

/// Frames read from a descriptor, in a decoder.
#[derive(Debug, Default)]
pub struct Mailbox<D> {
    decoder: D,
    has_ended: bool,
}

impl<D: Decoder> Mailbox<D> {
    /// Creates a mailbox with this decoder.
    pub const fn new(decoder: D) -> Mailbox<D> {
        Mailbox {
            decoder,
            has_ended: false,
        }
    }

    /// Reads available bytes into the decoder, at most `limit` bytes.
    ///
    /// Returns the number of bytes. Because of the limit, no other descriptor waits for long.
    ///
    /// # Errors
    /// Fails with errors of read(2), except `WouldBlock` and `Interrupted`.
    pub fn fill(&mut self, mut from: impl Read, limit: usize) -> io::Result<usize> {
        let mut chunk = vec![0; limit.min(CHUNK)];
        let mut total = 0;
        while total < limit && !self.has_ended {
            let room = chunk.len().min(limit - total);
            match from.read(&mut chunk[..room]) {
                Ok(0) => self.has_ended = true,
                Ok(count) => {
                    self.decoder.feed(&chunk[..count]);
                    total += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    /// Returns the decoder, which contains the bytes that were read.
    pub fn decoder(&mut self) -> &mut D {
        &mut self.decoder
    }

    /// True if the other end has closed the stream.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    impl Decoder for Vec<u8> {
        fn feed(&mut self, bytes: &[u8]) {
            self.extend_from_slice(bytes);
        }
    }

    #[test]
    fn a_mailbox_reads_what_is_there_up_to_its_limit_and_notes_the_end() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut mailbox = Mailbox::new(Vec::new());
        assert_eq!(mailbox.fill(&near, 100).unwrap(), 0);
        assert!(!mailbox.has_ended());
        far.write_all(&[7; 150]).unwrap();
        assert_eq!(mailbox.fill(&near, 100).unwrap(), 100);
        drop(far);
        assert_eq!(mailbox.fill(&near, 100).unwrap(), 50);
        assert!(mailbox.has_ended());
        assert_eq!(mailbox.decoder().len(), 150);
        assert_eq!(mailbox.fill(&near, 100).unwrap(), 0);
    }

    #[test]
    fn an_error_of_the_descriptor_is_reported() {
        let directory = std::fs::File::open("/").unwrap();
        assert!(Mailbox::new(Vec::new()).fill(&directory, 10).is_err());
    }
}
