//! Messages on pipes between the starter of a job and its managers.
//!
//! The frames are those of [`understudy_wire`].

use bincode::{Decode, Encode};
use std::io::{self, ErrorKind, Read, Write};
use understudy_wire::{FrameDecoder, encode_within};

/// Longest payload; the environment is its largest part.
const MAX_PAYLOAD_BYTES: usize = 16 << 20;
/// Limit of memory for decoding a payload.
const MAX_DECODED_BYTES: usize = 4 * MAX_PAYLOAD_BYTES;

/// Writes a message.
///
/// # Errors
/// Errors of write(2); [`ErrorKind::InvalidInput`] if the message is too long.
pub fn write_message(to: &mut impl Write, message: &impl Encode) -> io::Result<()> {
    to.write_all(&encode_message(message)?)?;
    to.flush()
}

/// Returns the bytes that [`write_message`] writes.
///
/// # Errors
/// `InvalidInput` if the message is too long.
pub fn encode_message(message: &impl Encode) -> io::Result<Vec<u8>> {
    Ok(encode_within(message, MAX_PAYLOAD_BYTES).ok_or(ErrorKind::InvalidInput)?)
}

/// Reading end of a pipe.
#[derive(Debug)]
pub struct Messages<R> {
    from: R,
    decoder: FrameDecoder<MAX_PAYLOAD_BYTES, MAX_DECODED_BYTES>,
}

impl<R: Read> Messages<R> {
    pub fn new(from: R) -> Messages<R> {
        Messages {
            from,
            decoder: FrameDecoder::default(),
        }
    }

    pub fn from(&self) -> &R {
        &self.from
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Errors of read(2); [`ErrorKind::UnexpectedEof`] at the end; [`ErrorKind::InvalidData`] for a
    /// malformed message.
    pub fn next<M: Decode<()>>(&mut self) -> io::Result<M> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            self.read()?;
        }
    }

    /// Reads once, and returns the messages that are complete.
    ///
    /// # Errors
    /// Errors of [`next`](Self::next).
    pub fn read_available<M: Decode<()>>(&mut self) -> io::Result<Vec<M>> {
        self.read()?;
        std::iter::from_fn(|| self.take().transpose()).collect()
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        match self.from.read(&mut bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => {
                self.decoder.feed(&bytes[..got]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn take<M: Decode<()>>(&mut self) -> io::Result<Option<M>> {
        let taken = self.decoder.take();
        taken.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_complete_and_the_end_is_an_error() {
        let mut bytes = Vec::new();
        let long = vec![7u8; 10_000];
        write_message(&mut bytes, &long).expect("written");
        write_message(&mut bytes, &1u32).expect("written");
        let mut messages = Messages::new(&bytes[..]);
        assert_eq!(messages.next::<Vec<u8>>().expect("whole"), long);
        assert_eq!(messages.next::<u32>().expect("whole"), 1);
        let end = messages.next::<u32>().expect_err("the end");
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
        let mut strangers = Messages::new(&b"GET / HTTP/1.1\r\n\r\n"[..]);
        assert!(strangers.next::<u32>().is_err());
    }
}
