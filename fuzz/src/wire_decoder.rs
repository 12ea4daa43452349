//! The decoder of the daemon's messages, fed with arbitrary bytes.

use understudy_wire::{Answer, Decoder, HEAD_BYTES, MAX_PAYLOAD, Request, encode};

/// Feeds all bytes but the first in pieces whose length the first byte defines.
///
/// A decoded message must not change when it is encoded and decoded again.
pub fn drive(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else {
        return;
    };
    let piece = 1 + usize::from(piece) * 16;
    decode::<Request>(bytes, piece);
    decode::<Answer>(bytes, piece);
}

fn decode<M: bincode::Decode<()> + bincode::Encode + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    piece: usize,
) {
    let mut decoder = Decoder::default();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        loop {
            match decoder.take::<M>() {
                Ok(Some(message)) => encode_and_decode(&message),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(decoder.incomplete_bytes() < HEAD_BYTES + MAX_PAYLOAD);
    }
}

fn encode_and_decode<M: bincode::Decode<()> + bincode::Encode + PartialEq + std::fmt::Debug>(
    message: &M,
) {
    let Some(frame) = encode(message) else { return };
    let mut decoder = Decoder::default();
    decoder.feed(&frame);
    match decoder.take::<M>() {
        Ok(Some(same)) => assert_eq!(&same, message),
        other => panic!("{other:?}"),
    }
}
