//! Reading an event file while it is being written.

use super::Record;
use super::codec::{HEADER_LEN, Header};
use super::reader::{EventReader, ReadError, first_record};
use crate::private::open_regular;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Gives the records of a file as they come. It ends for good at damage.
pub struct Follower {
    file: File,
    header: Option<Header>,
    /// What has been read and is not yet a whole record.
    rest: Vec<u8>,
    /// Where `rest` begins in the file.
    at: u64,
    is_damaged: bool,
}

impl Follower {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: open_regular(path)?,
            header: None,
            rest: Vec::new(),
            at: 0,
            is_damaged: false,
        })
    }

    /// Whether there is another file of this name by now: a process that has executed another program begins anew.
    pub fn is_replaced(&self, path: &Path) -> bool {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let [own, now] =
            [self.file.metadata(), std::fs::metadata(path)].map(|metadata| metadata.map(id).ok());
        now.is_some() && now != own
    }

    /// The header, once it has been read.
    pub fn header(&self) -> Option<Header> {
        self.header
    }

    /// The whole records that have been written since the last call.
    pub fn poll(&mut self) -> Result<Vec<Record>, ReadError> {
        let mut records = Vec::new();
        if self.is_damaged {
            return Ok(records);
        }
        self.file.read_to_end(&mut self.rest)?;
        match self.take(&mut records) {
            Ok(()) => Ok(records),
            Err(error) if error.is_torn_tail() => Ok(records),
            Err(error) => {
                self.is_damaged = true;
                Err(error)
            }
        }
    }

    fn take(&mut self, records: &mut Vec<Record>) -> Result<(), ReadError> {
        if self.header.is_none() {
            let head = self.rest.get(..HEADER_LEN).unwrap_or(&self.rest);
            self.header = Some(EventReader::from_bytes(head.to_vec())?.header());
            self.skip(HEADER_LEN);
        }
        while !self.rest.is_empty() {
            let (record, length) = first_record(&self.rest, self.at)?;
            records.push(record);
            self.skip(length);
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest.drain(..bytes);
        self.at += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Epoch, EventWriter, Kind, ProcessNumber, file_name};

    #[test]
    fn records_come_as_they_are_written_however_they_are_torn() {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let writer = EventWriter::create(dir.path(), ProcessNumber(0));
        (0..4).for_each(|n| {
            writer.emit(
                Epoch(n),
                Kind::Commit {
                    epoch: Epoch(n),
                    ns: 7 * n,
                },
            )
        });
        let whole =
            std::fs::read(dir.path().join(file_name(ProcessNumber(0)))).expect("it was written");
        let path = dir.path().join("copy");
        std::fs::write(&path, []).expect("writable");
        let mut follower = Follower::open(&path).expect("it is there");
        let mut found = Vec::new();
        for end in 1..=whole.len() {
            std::fs::write(&path, &whole[..end]).expect("writable");
            found.extend(follower.poll().expect("nothing is damaged"));
        }
        assert_eq!(
            found
                .iter()
                .map(|record| record.epoch.0)
                .collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        assert_eq!(
            follower.header().map(|header| header.rank),
            Some(ProcessNumber(0))
        );
    }

    #[test]
    fn another_file_of_the_same_name_is_noticed() {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let first = EventWriter::create(dir.path(), ProcessNumber(0));
        let follower = Follower::open(first.path()).expect("it is there");
        assert!(!follower.is_replaced(first.path()));
        let second = EventWriter::create(dir.path(), ProcessNumber(0));
        assert!(follower.is_replaced(second.path()));
    }

    #[test]
    fn damage_is_told_once() {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let path = dir.path().join("rank-0.events");
        std::fs::write(&path, b"something else altogether, and long enough").expect("writable");
        let mut follower = Follower::open(&path).expect("it is there");
        assert!(matches!(follower.poll(), Err(ReadError::NotAnEventFile)));
        assert!(follower.poll().is_ok_and(|records| records.is_empty()));
    }
}
