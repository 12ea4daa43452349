//! Reader of an event file that is still being written.

use super::codec::Header;
use super::stream::ReadError;
use super::stream::{CHUNK_BYTES, FramedRecord, RecordStream};
use crate::private_directories::open_regular;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Reader of records as they are written.
///
/// Damage or a read error ends the reading for good.
pub struct EventFollower {
    stream: RecordStream<File>,
    is_damaged: bool,
}

impl EventFollower {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            stream: RecordStream::new(open_regular(path)?, CHUNK_BYTES),
            is_damaged: false,
        })
    }

    /// True if the path names another file now.
    ///
    /// A process that executes another program begins a new file.
    pub fn is_replaced(&self, path: &Path) -> bool {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let [own, now] = [self.stream.source().metadata(), std::fs::metadata(path)]
            .map(|metadata| metadata.map(id).ok());
        now.is_some() && now != own
    }

    /// Returns the header once it has been read.
    pub fn header(&self) -> Option<Header> {
        self.stream.header_if_read()
    }

    /// Returns the next record; `None` if the file contains no further complete record yet.
    ///
    /// # Errors
    /// Fails once if the file is damaged behind the last good record or cannot be read; from then
    /// on the result is `None`.
    pub fn poll(&mut self) -> Result<Option<FramedRecord>, ReadError> {
        if self.is_damaged {
            return Ok(None);
        }
        match self.stream.next() {
            Err(error) if error.is_torn_tail() => Ok(None),
            Err(error) => {
                self.is_damaged = true;
                Err(error)
            }
            found => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Epoch, EventWriter, Kind, ProcessNumber, file_name};

    #[test]
    fn torn_records_are_read_once_complete() {
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
        let mut follower = EventFollower::open(&path).expect("it is there");
        let mut found = Vec::new();
        for end in 1..=whole.len() {
            std::fs::write(&path, &whole[..end]).expect("writable");
            while let Some(framed) = follower.poll().expect("no damage") {
                found.push(framed.record);
            }
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
        let follower = EventFollower::open(first.path()).expect("it is there");
        assert!(!follower.is_replaced(first.path()));
        let second = EventWriter::create(dir.path(), ProcessNumber(0));
        assert!(follower.is_replaced(second.path()));
    }

    #[test]
    fn damage_is_reported_once() {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let path = dir.path().join("rank-0.events");
        std::fs::write(&path, b"something else altogether, and long enough").expect("writable");
        let mut follower = EventFollower::open(&path).expect("it is there");
        assert!(matches!(follower.poll(), Err(ReadError::NotAnEventFile)));
        assert!(follower.poll().is_ok_and(|record| record.is_none()));
    }

    #[test]
    fn records_before_damage_are_read() {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let writer = EventWriter::create(dir.path(), ProcessNumber(0));
        (0..3).for_each(|signal| writer.emit(Epoch(0), Kind::Kill { signal }));
        let mut bytes = std::fs::read(writer.path()).expect("it was written");
        *bytes.last_mut().expect("three records") ^= 1;
        std::fs::write(writer.path(), &bytes).expect("writable");
        let mut follower = EventFollower::open(writer.path()).expect("it is there");
        for signal in 0..2 {
            let framed = follower.poll().expect("no damage yet").expect("a record");
            assert_eq!(framed.record.kind, Kind::Kill { signal });
        }
        assert!(matches!(follower.poll(), Err(ReadError::Checksum { .. })));
    }
}
