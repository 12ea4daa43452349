//! Messages as bytes.

use bincode::{Decode, Encode};
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 4] = *b"USCK";

/// Bump rule: any change to the frame, to [`super::Ask`], [`super::Answer`] or a type inside of
/// them, or to the proof of a token. Nobody reads another one.
pub const VERSION: u16 = 3;

/// Bytes in front of every payload.
pub const HEAD: usize = 16;
pub const MAX_PAYLOAD: usize = 256 << 10;
/// What decoding one payload may allocate: values are longer in memory than in a frame.
pub const DECODE_LIMIT: usize = 4 << 20;
/// Most bytes that are read of a peer which has not authenticated.
///
/// The decoder allocates as many.
pub const UNAUTHENTICATED: usize = 4 << 10;

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("this is not the protocol of ckptd")]
    Magic,
    /// Another version of it.
    #[error("version {0} of the protocol, expected version {VERSION}")]
    Version(u16),
    /// Longer than anything that is sent.
    #[error("a message of {0} bytes, longer than any may be")]
    Length(u32),
    /// Damaged, or not what it should be.
    #[error("a damaged message")]
    Damaged,
}

/// A message as one frame; `None` if it would be too long.
pub fn encode<M: Encode>(message: &M) -> Option<Vec<u8>> {
    encode_within(message, MAX_PAYLOAD)
}

/// The same for a connection whose messages may have another length.
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

/// Makes messages of a stream of bytes: of payloads that are not longer than `LONGEST`, and for
/// which not more than `DECODED` is allocated.
#[derive(Debug, Default)]
pub struct Frames<const LONGEST: usize, const DECODED: usize> {
    buffer: Vec<u8>,
    /// What has been decoded already.
    used: usize,
}

/// Those of ckptd and its clients.
pub type Decoder = Frames<MAX_PAYLOAD, DECODE_LIMIT>;

impl<const LONGEST: usize, const DECODED: usize> Frames<LONGEST, DECODED> {
    /// Takes bytes. All messages that are whole should be taken out first.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.used);
        self.used = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// How many bytes wait for the rest of their message.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// The next message, if it is there as a whole.
    pub fn take<M: Decode<()>>(&mut self) -> Result<Option<M>, WireError> {
        self.take_within::<M, LONGEST, DECODED>()
    }

    /// Returns the next message of a peer that has not authenticated.
    ///
    /// `None` until the whole message is there.
    ///
    /// # Errors
    /// As [`take`](Self::take), and for frames longer than [`UNAUTHENTICATED`] in all.
    pub fn take_unauthenticated<M: Decode<()>>(&mut self) -> Result<Option<M>, WireError> {
        self.take_within::<M, { UNAUTHENTICATED - HEAD }, UNAUTHENTICATED>()
    }

    /// Returns how many bytes may be read of a peer that has not authenticated.
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

/// Whether a frame can begin so, as far as the bytes go.
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
