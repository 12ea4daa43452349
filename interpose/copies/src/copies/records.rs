//! Two records in one file, of which one is valid whenever the writer dies.
//!
//! Only before the first complete write, none is valid. A record is written in place of the older
//! one. Its head, which lies in one page, is cleared first and written last. So a killed process
//! leaves the newer record, the older record, or both, each with its checksum.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use understudy_image::store::{ArenaFiles, IndexHeader, StoreError};
use xxhash_rust::xxh3::xxh3_64;

/// First word of a head; the last byte is the version of the recorded data.
const MAGIC: u64 = u64::from_le_bytes(*b"USTDYKP\x01");
/// Offsets of the two records, which have equal room.
const RECORD_OFFSETS: [u64; 2] = [0, 1 << 30];
/// Length of a head: magic, sequence number, [`RecordState`], length of the record, checksum.
const HEAD_BYTES: usize = 5 * size_of::<u64>();
/// Offset of the [`RecordState`] in a head.
const STATE_OFFSET: u64 = 2 * size_of::<u64>() as u64;

/// Progress of a record's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum RecordState {
    /// All replicas of the epoch are complete in this process.
    Complete = 1,
    Committed = 2,
}

/// Writer's view of the file.
#[derive(Debug)]
pub struct ReplicaRecords {
    front: IndexHeader,
    sequence: u64,
    /// Positions of the last committed record, and of the next one if it is complete.
    committed: Option<usize>,
    whole: Option<usize>,
}

/// Records in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundRecords {
    pub committed: Option<Vec<u8>>,
    pub whole: Option<Vec<u8>>,
}

impl ReplicaRecords {
    /// Creates the records of new files.
    ///
    /// # Errors
    /// Fails with [`StoreError::Reserve`] if the files cannot be mapped.
    pub fn new(files: &ArenaFiles) -> Result<ReplicaRecords, StoreError> {
        Ok(ReplicaRecords {
            front: files.map_header()?,
            sequence: 0,
            committed: None,
            whole: None,
        })
    }

    /// Opens the records of files that a process has left.
    ///
    /// # Errors
    /// Fails if the files cannot be read or mapped.
    pub fn open(files: &ArenaFiles) -> io::Result<(ReplicaRecords, FoundRecords)> {
        let mut read = Vec::new();
        for (place, &at) in RECORD_OFFSETS.iter().enumerate() {
            let record = read_at(&files.index, at)?;
            read.extend(record.map(|(sequence, state, bytes)| (sequence, state, place, bytes)));
        }
        read.sort_unstable_by_key(|record| record.0);
        let mut records = ReplicaRecords::new(files).map_err(io::Error::other)?;
        let mut found = FoundRecords::default();
        for (sequence, state, place, bytes) in read {
            records.sequence = sequence;
            match state {
                RecordState::Committed => {
                    (records.committed, records.whole) = (Some(place), None);
                    (found.committed, found.whole) = (Some(bytes), None);
                }
                RecordState::Complete => {
                    records.whole = Some(place);
                    found.whole = Some(bytes);
                }
            }
        }
        Ok((records, found))
    }

    /// Writes a record beside the committed record, in place of the other record.
    ///
    /// # Errors
    /// Fails if the record is too long; the committed record stays.
    pub fn write(&mut self, record: &[u8], state: RecordState) -> io::Result<()> {
        let place = usize::from(self.committed == Some(0));
        if (record.len() + HEAD_BYTES) as u64 > RECORD_OFFSETS[1] {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.whole = None;
        self.front.write(&[0; HEAD_BYTES], RECORD_OFFSETS[place]);
        self.front
            .write(record, RECORD_OFFSETS[place] + HEAD_BYTES as u64);
        self.sequence += 1;
        let head = [
            MAGIC,
            self.sequence,
            state as u64,
            record.len() as u64,
            xxh3_64(record),
        ];
        let head: Vec<u8> = head.into_iter().flat_map(u64::to_ne_bytes).collect();
        self.front.write(&head, RECORD_OFFSETS[place]);
        match state {
            RecordState::Committed => self.committed = Some(place),
            RecordState::Complete => self.whole = Some(place),
        }
        Ok(())
    }

    /// Marks the complete record as committed, and the previous one as obsolete.
    pub fn commit(&mut self) {
        if let Some(place) = self.whole.take() {
            let state = (RecordState::Committed as u64).to_ne_bytes();
            self.front
                .write(&state, RECORD_OFFSETS[place] + STATE_OFFSET);
            self.committed = Some(place);
        }
    }

    /// Discards the complete record.
    pub fn discard_complete(&mut self) {
        if let Some(place) = self.whole.take() {
            self.front.write(&[0; HEAD_BYTES], RECORD_OFFSETS[place]);
        }
    }

    /// Clears both records.
    pub fn clear(&mut self) {
        (self.committed, self.whole) = (None, None);
        RECORD_OFFSETS
            .iter()
            .for_each(|&place| self.front.write(&[0; HEAD_BYTES], place));
    }
}

/// Reads sequence number, state and bytes of a record; `None` if it is invalid.
fn read_at(file: &File, place: u64) -> io::Result<Option<(u64, RecordState, Vec<u8>)>> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, place)?;
    let mut words = head
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let mut next = || words.next().unwrap_or_default();
    let (magic, sequence, state, length, sum) = (next(), next(), next(), next(), next());
    let state = match state {
        1 => RecordState::Complete,
        2 => RecordState::Committed,
        _ => return Ok(None),
    };
    if magic != MAGIC || length > RECORD_OFFSETS[1] {
        return Ok(None);
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, place + HEAD_BYTES as u64)?;
    Ok((xxh3_64(&bytes) == sum).then_some((sequence, state, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (ArenaFiles, ReplicaRecords) {
        let files = ArenaFiles::new().expect("files in memory");
        let records = ReplicaRecords::new(&files).expect("room for a mapping");
        (files, records)
    }

    fn found(files: &ArenaFiles) -> FoundRecords {
        ReplicaRecords::open(files).expect("it can be read").1
    }

    fn has(committed: Option<&str>, whole: Option<&str>) -> FoundRecords {
        let bytes = |text: &str| text.as_bytes().to_vec();
        FoundRecords {
            committed: committed.map(bytes),
            whole: whole.map(bytes),
        }
    }

    #[test]
    fn a_committed_record_stays_until_the_next_is() {
        let (files, mut records) = files();
        assert_eq!(found(&files), has(None, None));
        records
            .write(b"one", RecordState::Complete)
            .expect("written");
        assert_eq!(found(&files), has(None, Some("one")));
        records.commit();
        for (before, next) in [
            ("one", "two"),
            ("two", "a longer one"),
            ("a longer one", "4"),
        ] {
            records
                .write(b"given up", RecordState::Complete)
                .expect("written");
            records.discard_complete();
            assert_eq!(found(&files), has(Some(before), None));
            records
                .write(next.as_bytes(), RecordState::Complete)
                .expect("written");
            assert_eq!(found(&files), has(Some(before), Some(next)));
            records.commit();
            assert_eq!(found(&files).committed, has(Some(next), None).committed);
            assert_eq!(found(&files).whole, None);
        }
        records
            .write(b"five", RecordState::Committed)
            .expect("written");
        assert_eq!(found(&files), has(Some("five"), None));
        // A replacement opens the records of its predecessor in this way.
        let (mut records, _) = ReplicaRecords::open(&files).expect("it can be read");
        records
            .write(b"six", RecordState::Complete)
            .expect("written");
        assert_eq!(found(&files), has(Some("five"), Some("six")));
        records.clear();
        assert_eq!(found(&files), has(None, None));
    }

    #[test]
    fn half_a_record_is_none() {
        let (files, mut records) = files();
        records
            .write(b"one", RecordState::Committed)
            .expect("written");
        records
            .write(b"two and more", RecordState::Complete)
            .expect("written");
        files
            .index
            .write_all_at(b"!", RECORD_OFFSETS[1] + HEAD_BYTES as u64 + 3)
            .expect("written");
        assert_eq!(found(&files), has(Some("one"), None));
    }
}
