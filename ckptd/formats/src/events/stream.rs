//! Incremental decoding of an event file, with one buffer of bounded size.

use super::codec::{
    FRAME_HEAD, HEADER_LEN, Header, MAX_PAYLOAD, decode_payload, frame_check, u32_at,
};
use super::record::{MAGIC, Record, VERSION};
use std::io::{self, Read};

/// Reason for which an event file yields no more records.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("is not an event file (it does not begin with the magic bytes)")]
    NotAnEventFile,
    #[error("foreign version: it has format version {found}, this program reads version {VERSION}")]
    ForeignVersion { found: u32 },
    /// Normal end of a killed rank's file, reported as a note rather than an error.
    #[error("truncated at byte {at}: the last record is incomplete")]
    Truncated { at: u64 },
    #[error("checksum: the bytes from {at} on are damaged")]
    Checksum { at: u64 },
    #[error("the record at byte {at} claims {len} bytes, more than any record has")]
    Length { at: u64, len: u32 },
    #[error("the record at byte {at} is intact but makes no sense in version {VERSION}")]
    Payload { at: u64 },
}

impl ReadError {
    /// True for damage that the sudden end of a rank causes.
    pub fn is_torn_tail(&self) -> bool {
        matches!(self, Self::Truncated { .. })
    }
}

/// Default minimum number of bytes per read.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Record and the length of its frame.
pub struct FramedRecord {
    pub record: Record,
    pub bytes: usize,
}

/// Decoder of the records in `source`.
///
/// An incomplete header or record is [`ReadError::Truncated`], and can be read again once `source`
/// has grown.
pub(super) struct RecordStream<R> {
    source: R,
    /// Minimum number of bytes per read.
    chunk: usize,
    header: Option<Header>,
    buffer: Vec<u8>,
    /// Offset in `buffer` of the first byte that is not decoded yet.
    decoded: usize,
    /// Offset in the file of the first byte that is not decoded yet.
    file_offset: u64,
}

impl<R: Read> RecordStream<R> {
    pub fn new(source: R, chunk: usize) -> Self {
        Self {
            source,
            chunk,
            header: None,
            buffer: Vec::new(),
            decoded: 0,
            file_offset: 0,
        }
    }

    pub fn source(&self) -> &R {
        &self.source
    }

    /// Returns the file header, which the first call reads.
    pub fn header(&mut self) -> Result<Header, ReadError> {
        if let Some(header) = self.header {
            return Ok(header);
        }
        let header = parse_header(self.peek(HEADER_LEN)?)?;
        self.skip(HEADER_LEN);
        Ok(*self.header.insert(header))
    }

    /// Returns the header if it has been read.
    pub fn header_if_read(&self) -> Option<Header> {
        self.header
    }

    /// Returns the next record; `None` if the source ends between two records.
    pub fn next(&mut self) -> Result<Option<FramedRecord>, ReadError> {
        self.header()?;
        let at = self.file_offset;
        let head = self.peek(FRAME_HEAD)?;
        if head.is_empty() {
            self.buffer = Vec::new();
            self.decoded = 0;
            return Ok(None);
        }
        if head.len() < FRAME_HEAD {
            return Err(self.torn());
        }
        let (len, check) = (u32_at(head, 0), u32_at(head, 4));
        if len as usize > MAX_PAYLOAD {
            return Err(ReadError::Length { at, len });
        }
        let bytes = FRAME_HEAD + len as usize;
        let Some(payload) = self.peek(bytes)?.get(FRAME_HEAD..bytes) else {
            return Err(self.torn());
        };
        if check != frame_check(len, payload) {
            return Err(ReadError::Checksum { at });
        }
        let record = decode_payload(payload).ok_or(ReadError::Payload { at })?;
        self.skip(bytes);
        Ok(Some(FramedRecord { record, bytes }))
    }

    /// Returns the error of a source that ends inside a record.
    fn torn(&self) -> ReadError {
        ReadError::Truncated {
            at: self.file_offset + (self.buffer.len() - self.decoded) as u64,
        }
    }

    /// Returns the next `wanted` bytes, or fewer if the source ends.
    fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        let buffered = self.buffer.len() - self.decoded;
        if buffered < wanted {
            self.buffer.drain(..self.decoded);
            self.decoded = 0;
            // A single long record must not occupy memory for the rest of the file.
            self.buffer.shrink_to(self.chunk.max(wanted));
            let more = (wanted - buffered).max(self.chunk) as u64;
            (&mut self.source)
                .take(more)
                .read_to_end(&mut self.buffer)?;
        }
        let end = self.buffer.len().min(self.decoded + wanted);
        Ok(&self.buffer[self.decoded..end])
    }

    fn skip(&mut self, bytes: usize) {
        self.decoded += bytes;
        self.file_offset += bytes as u64;
    }
}

fn parse_header(bytes: &[u8]) -> Result<Header, ReadError> {
    let magic = bytes.len().min(MAGIC.len());
    if bytes[..magic] != MAGIC[..magic] {
        return Err(ReadError::NotAnEventFile);
    }
    if bytes.len() >= 12 && u32_at(bytes, 8) != VERSION {
        return Err(ReadError::ForeignVersion {
            found: u32_at(bytes, 8),
        });
    }
    let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(ReadError::Truncated {
            at: bytes.len() as u64,
        });
    };
    Header::from_bytes(head).ok_or(ReadError::Checksum { at: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{ClockPair, Epoch, Kind, ProcessNumber, encode_record};

    /// Reads a long record between short ones in pieces of at least two bytes.
    ///
    /// The buffer is short again after the short record that follows the long one.
    #[test]
    fn the_buffer_is_as_long_as_the_longest_record() {
        let record = |length: usize| Record {
            t: 7,
            epoch: Epoch(1),
            kind: Kind::Refused {
                reason: "x".repeat(length),
            },
        };
        let header = Header {
            rank: ProcessNumber(0),
            clocks: ClockPair::now(),
        };
        let lengths = [3, 300_000, 3, 3];
        let mut file = header.to_bytes().to_vec();
        for length in lengths {
            file.extend(encode_record(&record(length)).expect("a record"));
        }
        let mut stream = RecordStream::new(&file[..], 2);
        for length in lengths {
            let framed = stream.next().expect("no damage").expect("a record");
            assert_eq!(framed.record, record(length));
        }
        assert!(
            stream.buffer.capacity() < 1000,
            "{}",
            stream.buffer.capacity()
        );
        assert!(stream.next().expect("no damage").is_none());
        assert_eq!(stream.file_offset, file.len() as u64);
    }
}
