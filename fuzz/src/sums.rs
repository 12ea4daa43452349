//! Corrects magic numbers, versions and checksums in otherwise arbitrary bytes.
//!
//! Without correct checksums, the code behind a check would not be reached. All corrections are in
//! place, so that a fuzzer's bytes keep their positions.

use bincode::config::standard;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

/// Corrects successive frames of the daemon's protocol; lengths are kept below 4096.
pub fn wire(bytes: &mut [u8]) {
    let mut rest = bytes;
    while rest.len() >= 16 {
        rest[..4].copy_from_slice(b"USCK");
        rest[4..6].copy_from_slice(&understudy_wire::VERSION.to_le_bytes());
        rest[6..8].fill(0);
        let length = (word(rest, 8) % 4096).min(rest.len() - 16);
        let check = xxh3_64(&rest[16..16 + length]) as u32;
        rest[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        rest[12..16].copy_from_slice(&check.to_le_bytes());
        rest = &mut rest[16 + length..];
    }
}

/// Corrects an event file; lengths of records are kept below 4096.
pub fn events(bytes: &mut [u8]) {
    use understudy_formats::events::{HEADER_LEN, MAGIC, VERSION};
    let Some((head, mut rest)) = bytes.split_at_mut_checked(HEADER_LEN) else {
        return;
    };
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let check = xxh3_64(&head[..32]) as u32;
    head[32..].copy_from_slice(&check.to_le_bytes());
    while rest.len() >= 8 {
        let length = (word(rest, 0) % 4096).min(rest.len() - 8);
        let check = xxh3_64_with_seed(&rest[8..8 + length], length as u64) as u32;
        rest[..4].copy_from_slice(&(length as u32).to_le_bytes());
        rest[4..8].copy_from_slice(&check.to_le_bytes());
        rest = &mut rest[8 + length..];
    }
}

/// Corrects a checkpoint file.
pub fn epoch(bytes: &mut [u8]) {
    use understudy_formats::epochs::epoch_format::{EpochHead, VERSION};
    if bytes.len() < 24 {
        return;
    }
    bytes[..8].copy_from_slice(b"USTDYEPO");
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let length = (word(bytes, 12) % 65536).min(bytes.len() - 24);
    bytes[12..16].copy_from_slice(&(length as u32).to_le_bytes());
    let end = seal(bytes, 0, 16 + length, 0);
    // The positions of all further checksums depend on the head.
    let limited = standard().with_limit::<{ 1 << 20 }>();
    let Ok((head, _)) =
        bincode::decode_from_slice::<EpochHead, _>(&bytes[16..16 + length], limited)
    else {
        return;
    };
    let Some(mut at) = usize::try_from(head.state)
        .ok()
        .and_then(|state| end.checked_add(state))
    else {
        return;
    };
    if at.checked_add(8).is_none_or(|end| end > bytes.len()) {
        return;
    }
    at = seal(bytes, end, at, 1);
    for section in 2.. {
        // The section has one page for each bit that is set in the map.
        let Some(map) = bytes.get(at..at + 32) else {
            return;
        };
        let pages: usize = map.iter().map(|byte| byte.count_ones() as usize).sum();
        let content = at + 32 + pages * 4096;
        if content + 8 > bytes.len() {
            return;
        }
        at = seal(bytes, at, content, section);
    }
}

/// Writes a section's checksum after it; returns the end of the checksum.
fn seal(bytes: &mut [u8], from: usize, to: usize, section: u64) -> usize {
    let check = xxh3_64_with_seed(&bytes[from..to], section);
    bytes[to..to + 8].copy_from_slice(&check.to_le_bytes());
    to + 8
}
