//! Encoding of messages as frames.

use bincode::{Decode, Encode};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"USCK";

/// Version of the protocol; peers accept no other version.
///
/// A new version is required by any change of the frame, of [`super::Request`], [`super::Answer`]
/// or a type inside of them, or of the proof of a token.
pub const VERSION: u16 = 3;

/// Number of bytes in front of every payload.
pub const HEAD_BYTES: usize = 16;
/// Maximum length of a payload between ckptd and its clients.
pub const MAX_PAYLOAD: usize = 256 << 10;
/// Maximum allocation in bytes for one payload.
///
/// Values are longer in memory than in a frame.
pub const DECODE_LIMIT: usize = 4 << 20;
/// Maximum length of a frame of an unauthenticated peer.
///
/// The decoder allocates at most this number of bytes, too.
pub const MAX_UNAUTHENTICATED_BYTES: usize = 4 << 10;

/// Reason why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("this is not the protocol of ckptd")]
    Magic,
    /// Another version of the protocol.
    #[error("version {0} of the protocol, expected version {VERSION}")]
    Version(u16),
    /// The message exceeds the maximum length.
    #[error("a message of {0} bytes, which exceeds the limit")]
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
pub fn encode_within<M: Encode>(message: &M, max_payload_bytes: usize) -> Option<Vec<u8>> {
    let mut frame = vec![0; HEAD_BYTES];
    let length =
        bincode::encode_into_std_write(message, &mut frame, bincode::config::standard()).ok()?;
    if length > max_payload_bytes {
        return None;
    }
    let checksum = xxh3_64(&frame[HEAD_BYTES..]) as u32;
    frame[..4].copy_from_slice(&MAGIC);
    frame[4..6].copy_from_slice(&VERSION.to_le_bytes());
    frame[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    frame[12..16].copy_from_slice(&checksum.to_le_bytes());
    Some(frame)
}

/// Decoder of messages in a stream of bytes.
///
/// Payloads are at most `MAX_PAYLOAD_BYTES` long, and decoding one allocates at most
/// `MAX_DECODED_BYTES`.
#[derive(Debug, Default)]
pub struct FrameDecoder<const MAX_PAYLOAD_BYTES: usize, const MAX_DECODED_BYTES: usize> {
    buffer: Vec<u8>,
    /// Number of decoded bytes in the buffer.
    used: usize,
}

/// Decoder of ckptd and its clients.
pub type Decoder = FrameDecoder<MAX_PAYLOAD, DECODE_LIMIT>;

impl<const MAX_PAYLOAD_BYTES: usize, const MAX_DECODED_BYTES: usize>
    FrameDecoder<MAX_PAYLOAD_BYTES, MAX_DECODED_BYTES>
{
    /// Adds bytes; the caller should first decode all complete messages.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes of an incomplete message.
    pub fn incomplete_bytes(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// Returns the next message; `None` until the message is complete.
    ///
    /// # Errors
    /// Fails if the bytes are not a message of this version; from then on nothing can be decoded.
    pub fn take<M: Decode<()>>(&mut self) -> Result<Option<M>, WireError> {
        self.take_within::<M, MAX_PAYLOAD_BYTES, MAX_DECODED_BYTES>()
    }

    /// Returns the next message of a peer that has not authenticated.
    ///
    /// `None` until the message is complete.
    ///
    /// # Errors
    /// Fails like [`take`](Self::take), and for frames longer than [`MAX_UNAUTHENTICATED_BYTES`].
    pub fn take_unauthenticated<M: Decode<()>>(&mut self) -> Result<Option<M>, WireError> {
        self.take_within::<M, { MAX_UNAUTHENTICATED_BYTES - HEAD_BYTES }, MAX_UNAUTHENTICATED_BYTES>()
    }

    /// Returns the number of bytes that may be read now from an unauthenticated peer.
    pub fn room_unauthenticated(&self) -> usize {
        MAX_UNAUTHENTICATED_BYTES.saturating_sub(self.incomplete_bytes())
    }

    fn take_within<
        M: Decode<()>,
        const MAX_TAKEN_PAYLOAD_BYTES: usize,
        const MAX_TAKEN_DECODED_BYTES: usize,
    >(
        &mut self,
    ) -> Result<Option<M>, WireError> {
        let bytes = &self.buffer[self.used..];
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return check_beginning(bytes).map(|()| None);
        };
        check_beginning(head)?;
        let read_u32 =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, checksum) = (read_u32(8), read_u32(12));
        if length as usize > MAX_TAKEN_PAYLOAD_BYTES {
            return Err(WireError::Length(length));
        }
        let Some(payload) = rest.get(..length as usize) else {
            return Ok(None);
        };
        if xxh3_64(payload) as u32 != checksum {
            return Err(WireError::Damaged);
        }
        let config = bincode::config::standard().with_limit::<MAX_TAKEN_DECODED_BYTES>();
        match bincode::decode_from_slice(payload, config) {
            Ok((message, used)) if used == payload.len() => {
                self.used += HEAD_BYTES + used;
                Ok(Some(message))
            }
            _ => Err(WireError::Damaged),
        }
    }
}

impl<const MAX_PAYLOAD_BYTES: usize, const MAX_DECODED_BYTES: usize> crate::io::Decoder
    for FrameDecoder<MAX_PAYLOAD_BYTES, MAX_DECODED_BYTES>
{
    fn feed(&mut self, bytes: &[u8]) {
        FrameDecoder::feed(self, bytes);
    }
}

/// Returns an error if no frame can begin with these bytes.
fn check_beginning(head: &[u8]) -> Result<(), WireError> {
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
