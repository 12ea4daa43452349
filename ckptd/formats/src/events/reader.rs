//! Reader of a finished event file, which may be truncated.

use super::codec::Header;
use super::record::Record;
use super::stream::{CHUNK_BYTES, FramedRecord, ReadError, RecordStream};
use crate::private_directories::open_regular;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

/// Iterator over the records of one file; it ends after the first error.
///
/// The longest record bounds the memory, regardless of the length of the file.
pub struct EventReader<R = File> {
    header: Header,
    stream: RecordStream<R>,
    done: bool,
}

impl EventReader {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(open_regular(path)?, CHUNK_BYTES)
    }
}

impl EventReader<Cursor<Vec<u8>>> {
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ReadError> {
        Self::new(Cursor::new(bytes), CHUNK_BYTES)
    }
}

impl<R: Read> EventReader<R> {
    /// Reads the header of `source`; records are read in pieces of at least `chunk` bytes.
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

    /// Returns the next record and its length in the file.
    pub fn next_framed(&mut self) -> Option<Result<FramedRecord, ReadError>> {
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
