//! Reading an event file, however it ends.

use super::codec::{
    FRAME_HEAD, HEADER_LEN, Header, MAX_PAYLOAD, decode_payload, frame_check, u32_at,
};
use super::{MAGIC, Record, VERSION};
use crate::private::open_regular;
use std::io::Read;
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
    /// Whether this is just what a rank's sudden end leaves behind.
    pub fn is_torn_tail(&self) -> bool {
        matches!(self, Self::Truncated { .. })
    }
}

/// Iterates over the records of one file and ends after the first error.
pub struct EventReader {
    header: Header,
    bytes: Vec<u8>,
    at: usize,
    done: bool,
}

impl EventReader {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        open_regular(path)?.read_to_end(&mut bytes)?;
        Self::from_bytes(bytes)
    }

    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ReadError> {
        let magic = bytes.len().min(MAGIC.len());
        if bytes[..magic] != MAGIC[..magic] {
            return Err(ReadError::NotAnEventFile);
        }
        if bytes.len() >= 12 && u32_at(&bytes, 8) != VERSION {
            return Err(ReadError::ForeignVersion {
                found: u32_at(&bytes, 8),
            });
        }
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(ReadError::Truncated {
                at: bytes.len() as u64,
            });
        };
        let header = Header::from_bytes(head).ok_or(ReadError::Checksum { at: 0 })?;
        Ok(Self {
            header,
            bytes,
            at: HEADER_LEN,
            done: false,
        })
    }

    pub fn header(&self) -> Header {
        self.header
    }

    fn record(&mut self) -> Result<Record, ReadError> {
        let (record, length) = first_record(&self.bytes[self.at..], self.at as u64)?;
        self.at += length;
        Ok(record)
    }
}

/// The record that `rest` begins with, and its length in bytes; `at` is its place in the file.
pub(super) fn first_record(rest: &[u8], at: u64) -> Result<(Record, usize), ReadError> {
    let torn = || ReadError::Truncated {
        at: at + rest.len() as u64,
    };
    if rest.len() < FRAME_HEAD {
        return Err(torn());
    }
    let len = u32_at(rest, 0);
    if len as usize > MAX_PAYLOAD {
        return Err(ReadError::Length { at, len });
    }
    let payload = rest
        .get(FRAME_HEAD..FRAME_HEAD + len as usize)
        .ok_or_else(torn)?;
    if u32_at(rest, 4) != frame_check(len, payload) {
        return Err(ReadError::Checksum { at });
    }
    let record = decode_payload(payload).ok_or(ReadError::Payload { at })?;
    Ok((record, FRAME_HEAD + len as usize))
}

impl Iterator for EventReader {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done || self.at == self.bytes.len() {
            return None;
        }
        let record = self.record();
        self.done = record.is_err();
        Some(record)
    }
}
