//! Encoding of the header and of frames; the documentation of [`super`] shows their layout.
//!
//! A frame is a record: `len`, `check` and payload.

use super::clock::ClockPair;
use super::record::{MAGIC, Record, VERSION};
use understudy_numbers::ProcessNumber;
use xxhash_rust::xxh3::xxh3_64;

/// Length of the file header in bytes.
pub const HEADER_LEN: usize = 36;
/// Number of bytes in front of every payload: its length and its check.
pub(super) const FRAME_HEAD: usize = 8;
/// Maximum length of a payload, for readers and writers.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// File header without magic, version and check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub rank: ProcessNumber,
    /// Time at which the file was begun; the `t` of each record counts from it.
    pub clocks: ClockPair,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.rank.0.to_le_bytes());
        out[16..24].copy_from_slice(&self.clocks.realtime_ns.to_le_bytes());
        out[24..32].copy_from_slice(&self.clocks.monotonic_ns.to_le_bytes());
        let check = low32(xxh3_64(&out[..32]));
        out[32..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes the fields behind magic and version; `None` if the check is wrong.
    pub(super) fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Option<Self> {
        (u32_at(bytes, 32) == low32(xxh3_64(&bytes[..32]))).then(|| Self {
            rank: ProcessNumber(u32_at(bytes, 12)),
            clocks: ClockPair {
                realtime_ns: u64_at(bytes, 16),
                monotonic_ns: u64_at(bytes, 24),
            },
        })
    }
}

/// Encodes a record as one frame; `None` if its payload is longer than [`MAX_PAYLOAD`].
///
/// Only an extremely long command line or setting of a job causes such a length.
pub fn encode_record(record: &Record) -> Option<Vec<u8>> {
    let mut frame = vec![0; FRAME_HEAD];
    let payload =
        bincode::encode_into_std_write(record, &mut frame, bincode::config::standard()).ok()?;
    if payload > MAX_PAYLOAD {
        return None;
    }
    frame[..4].copy_from_slice(&(payload as u32).to_le_bytes());
    let check = frame_check(payload as u32, &frame[FRAME_HEAD..]);
    frame[4..FRAME_HEAD].copy_from_slice(&check.to_le_bytes());
    Some(frame)
}

/// Decodes a payload, which must contain exactly one record.
pub(super) fn decode_payload(payload: &[u8]) -> Option<Record> {
    let config = bincode::config::standard().with_limit::<{ 16 * MAX_PAYLOAD }>();
    match bincode::decode_from_slice(payload, config) {
        Ok((record, used)) if used == payload.len() => Some(record),
        _ => None,
    }
}

/// Computes the check of a frame.
///
/// The check also covers the length, so that a damaged length does not lead to a valid frame.
pub(super) fn frame_check(len: u32, payload: &[u8]) -> u32 {
    low32(xxhash_rust::xxh3::xxh3_64_with_seed(
        payload,
        u64::from(len),
    ))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn low32(hash: u64) -> u32 {
    hash as u32
}
