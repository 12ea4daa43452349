//! Reading an event file, however it ends.

use super::codec::Header;
use super::stream::{CHUNK, Framed, RecordStream};
use super::{Record, VERSION};
use crate::private::open_regular;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

/// Why an event file gives no (more) records.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("is not an event file (it does not begin with the magic bytes)")]
    NotAnEventFile,
    #[error("foreign version: it has format version {found}, this program reads version {VERSION}")]
    ForeignVersion { found: u32 },
    /// The usual end of a killed rank's file: a note rather than an error.
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
    /// True for what the sudden end of a rank leaves behind.
    pub fn is_torn_tail(&self) -> bool {
        matches!(self, Self::Truncated { .. })
    }
}

/// Iterates over the records of one file and ends after the first error.
///
/// Memory is bounded by the longest record, whatever the length of the file.
pub struct EventReader<R = File> {
    header: Header,
    stream: RecordStream<R>,
    done: bool,
}

impl EventReader {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(open_regular(path)?, CHUNK)
    }
}

impl EventReader<Cursor<Vec<u8>>> {
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ReadError> {
        Self::new(Cursor::new(bytes), CHUNK)
    }
}

impl<R: Read> EventReader<R> {
    /// Reads the header of `source`; records are read in pieces of `chunk` bytes.
    pub fn new(source: R, chunk: usize) -> Result<Self, ReadError> {
        let mut stream = RecordStream::new(source, chunk);
        Ok(Self {
            header: stream.header()?,
            stream,
            done: false,
        })
    }

    pub fn header(&self) -> Header {
        self.header
    }

    pub fn source(&self) -> &R {
        self.stream.source()
    }

    /// The next record with its length in the file.
    pub fn next_framed(&mut self) -> Option<Result<Framed, ReadError>> {
        if self.done {
            return None;
        }
        let framed = self.stream.next().transpose();
        self.done = !matches!(framed, Some(Ok(_)));
        framed
    }
}

impl<R: Read> Iterator for EventReader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let framed = self.next_framed()?;
        Some(framed.map(|framed| framed.record))
    }
}
