//! Encoding of messages as frames.

use bincode::{Decode, Encode};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"USCK";

/// Version of the protocol; peers accept no other version.
///
/// Bump rule: any change to the frame, to [`super::Ask`], [`super::Answer`] or a type inside of
/// them, or to the proof of a token.
pub const VERSION: u16 = 3;

/// Number of bytes in front of every payload.
pub const HEAD: usize = 16;
pub const MAX_PAYLOAD: usize = 256 << 10;
/// Maximum allocation in bytes for one payload.
///
/// Values are longer in memory than in a frame.
pub const DECODE_LIMIT: usize = 4 << 20;
/// Maximum number of bytes that are read from an unauthenticated peer.
///
/// The decoder allocates at most this number of bytes, too.
pub const UNAUTHENTICATED: usize = 4 << 10;

/// Reason why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("this is not the protocol of ckptd")]
    Magic,
    /// Another version of the protocol.
    #[error("version {0} of the protocol, expected version {VERSION}")]
    Version(u16),
    /// The message exceeds the maximum length.
    #[error("a message of {0} bytes, longer than any may be")]
    Length(u32),
    /// The message is damaged or has the wrong type.
    #[error("a damaged message")]
    Damaged,
}

/// Encodes a message as one frame; `None` if it would be too long.
pub fn encode<M: Encode>(message: &M) -> Option<Vec<u8>> {
    encode_within(message, MAX_PAYLOAD)
}

/// Encodes a message like [`encode`], with another maximum length.
pub fn encode_within<M: Encode>(message: &M, longest: usize) -> Option<Vec<u8>> {
    let mut frame = vec![0; HEAD];
    let length =
        bincode::encode_into_std_write(message, &mut frame, bincode::config::standard()).ok()?;
    if length > longest {
        return None;
    }
    let check = xxh3_64(&frame[HEAD..]) as u32;
    frame[..4].copy_from_slice(&MAGIC);
    frame[4..6].copy_from_slice(&VERSION.to_le_bytes());
    frame[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    frame[12..16].copy_from_slice(&check.to_le_bytes());
    Some(frame)
}

/// Decoder of messages in a stream of bytes.
///
/// Payloads are at most `LONGEST` bytes long, and their decoding allocates at most `DECODED` bytes.
#[derive(Debug, Default)]
pub struct Frames<const LONGEST: usize, const DECODED: usize> {
    buffer: Vec<u8>,
    /// Number of decoded bytes in the buffer.
    used: usize,
}

/// Decoder of ckptd and its clients.
pub type Decoder = Frames<MAX_PAYLOAD, DECODE_LIMIT>;

impl<const LONGEST: usize, const DECODED: usize> Frames<LONGEST, DECODED> {
    /// Adds bytes; all complete messages should be taken out before.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes of an incomplete message.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// Returns the next message if it is complete.
    pub fn take<M: Decode<()>>(&mut self) -> Result<Option<M>, WireError> {
        self.take_within::<M, LONGEST, DECODED>()
    }

    /// Returns the next message of a peer that has not authenticated.
    ///
    /// `None` until the message is complete.
    ///
    /// # Errors
    /// As [`take`](Self::take), and for frames longer than [`UNAUTHENTICATED`] in total.
    pub fn take_unauthenticated<M: Decode<()>>(&mut self) -> Result<Option<M>, WireError> {
        self.take_within::<M, { UNAUTHENTICATED - HEAD }, UNAUTHENTICATED>()
    }

    /// Returns the number of bytes that may be read from an unauthenticated peer.
    pub fn room_unauthenticated(&self) -> usize {
        UNAUTHENTICATED.saturating_sub(self.waiting())
    }

    fn take_within<M: Decode<()>, const LONGEST_TAKEN: usize, const DECODED_TAKEN: usize>(
        &mut self,
    ) -> Result<Option<M>, WireError> {
        let bytes = &self.buffer[self.used..];
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
            return is_beginning(bytes).map(|()| None);
        };
        is_beginning(head)?;
        let word =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, check) = (word(8), word(12));
        if length as usize > LONGEST_TAKEN {
            return Err(WireError::Length(length));
        }
        let Some(payload) = rest.get(..length as usize) else {
            return Ok(None);
        };
        if xxh3_64(payload) as u32 != check {
            return Err(WireError::Damaged);
        }
        let config = bincode::config::standard().with_limit::<DECODED_TAKEN>();
        match bincode::decode_from_slice(payload, config) {
            Ok((message, used)) if used == payload.len() => {
                self.used += HEAD + used;
                Ok(Some(message))
            }
            _ => Err(WireError::Damaged),
        }
    }
}

impl<const LONGEST: usize, const DECODED: usize> crate::io::Decoder for Frames<LONGEST, DECODED> {
    fn feed(&mut self, bytes: &[u8]) {
        Frames::feed(self, bytes);
    }
}

/// Returns an error if no frame can begin with these bytes.
fn is_beginning(head: &[u8]) -> Result<(), WireError> {
    if !MAGIC.starts_with(&head[..head.len().min(4)]) {
        return Err(WireError::Magic);
    }
    match *head {
        [_, _, _, _, low, high, ..] if [low, high] != VERSION.to_le_bytes() => {
            Err(WireError::Version(u16::from_le_bytes([low, high])))
        }
        [_, _, _, _, _, _, low, high, ..] if [low, high] != [0; 2] => Err(WireError::Damaged),
        _ => Ok(()),
    }
}
