//! Compression of bytes that are stored for long and rarely read (Zstandard, RFC 8878).
//!
//! The output begins with the number of original bytes.

use std::io;

/// Level of compression.
///
/// The higher levels take ten times as long for an output that is a tenth shorter, as measured with
/// journals.
const LEVEL: i32 = 1;
const HEADER: usize = size_of::<u64>();
/// Limit of original bytes for each compressed byte.
///
/// A block has at least 4 bytes and at most 128 KiB of content (RFC 8878, 3.1.1.2).
const MAX_RATIO: usize = 32 << 10;

/// Compresses bytes.
///
/// # Panics
/// Panics if memory does not suffice for the result.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(bytes, LEVEL).expect("memory for the compressed bytes");
    [&(bytes.len() as u64).to_le_bytes(), packed.as_slice()].concat()
}

/// Restores the input of [`pack`] from its output.
///
/// # Errors
/// Fails if the bytes are incomplete or damaged.
pub fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "compressed bytes are damaged");
    let (length, body) = packed.split_first_chunk::<HEADER>().ok_or_else(damaged)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| damaged())?;
    if length / MAX_RATIO > body.len() {
        return Err(damaged());
    }
    let bytes = zstd::bulk::decompress(body, length)?;
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_bytes_are_unpacked_and_parts_are_refused() {
        let bytes: Vec<u8> = (0..10_000_u32)
            .flat_map(|number| (number / 7).to_le_bytes())
            .collect();
        let packed = pack(&bytes);
        assert!(packed.len() * 3 < bytes.len());
        assert_eq!(unpack(&packed).expect("whole"), bytes);
        assert!(unpack(&pack(&[])).expect("whole").is_empty());
        for length in 0..packed.len() {
            assert!(unpack(&packed[..length]).is_err(), "{length}");
        }
        let mut longer = packed;
        longer[0] ^= 1;
        assert!(unpack(&longer).is_err());
        // The length is refused before memory is allocated for it.
        longer[7] = 0x70;
        assert!(unpack(&longer).is_err());
        let zeros = vec![0; 64 << 20];
        assert!(unpack(&pack(&zeros)).expect("whole") == zeros);
    }
}
