//! Two records in one file, one of which is valid whenever the writer dies.
//!
//! A record is written in place of the older one. Its head, which lies in one page, is cleared
//! first and written last. So a killed process leaves the newer record, the older one, or both,
//! each with its checksum.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use understudy_image::store::{Files, Front, StoreError};
use xxhash_rust::xxh3::xxh3_64;

/// First word of a head; the last byte is the version of the recorded data.
const MAGIC: u64 = u64::from_le_bytes(*b"USTDYKP\x01");
/// Offsets of the two records, which have equal room.
const PLACES: [u64; 2] = [0, 1 << 30];
/// Length of a head: magic, sequence number, [`Standing`], length of the record, checksum.
const HEAD: usize = 5 * size_of::<u64>();
/// Offset of the standing in a head.
const STANDING_AT: u64 = 2 * size_of::<u64>() as u64;

/// Progress of a record's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Standing {
    /// All replicas of the epoch are complete in this process.
    Whole = 1,
    Committed = 2,
}

/// Writer's view of the file.
#[derive(Debug)]
pub struct Records {
    front: Front,
    sequence: u64,
    /// Positions of the last committed record, and of the next one if it is complete.
    committed: Option<usize>,
    whole: Option<usize>,
}

/// Records in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub committed: Option<Vec<u8>>,
    pub whole: Option<Vec<u8>>,
}

impl Records {
    /// Creates the records of new files.
    ///
    /// # Errors
    /// [`StoreError::Reserve`]
    pub fn new(files: &Files) -> Result<Records, StoreError> {
        Ok(Records {
            front: files.front()?,
            sequence: 0,
            committed: None,
            whole: None,
        })
    }

    /// Opens the records of files that a process has left.
    ///
    /// # Errors
    /// Errors of reading the files.
    pub fn open(files: &Files) -> io::Result<(Records, Found)> {
        let mut read = Vec::new();
        for (place, &at) in PLACES.iter().enumerate() {
            let record = read_at(&files.index, at)?;
            read.extend(
                record.map(|(sequence, standing, bytes)| (sequence, standing, place, bytes)),
            );
        }
        read.sort_unstable_by_key(|record| record.0);
        let mut records = Records::new(files).map_err(io::Error::other)?;
        let mut found = Found::default();
        for (sequence, standing, place, bytes) in read {
            records.sequence = sequence;
            match standing {
                Standing::Committed => {
                    (records.committed, records.whole) = (Some(place), None);
                    (found.committed, found.whole) = (Some(bytes), None);
                }
                Standing::Whole => {
                    records.whole = Some(place);
                    found.whole = Some(bytes);
                }
            }
        }
        Ok((records, found))
    }

    /// Writes a record after the committed one, in place of any other.
    ///
    /// # Errors
    /// If it is too long; the committed record stays.
    pub fn write(&mut self, record: &[u8], standing: Standing) -> io::Result<()> {
        let place = usize::from(self.committed == Some(0));
        if (record.len() + HEAD) as u64 > PLACES[1] {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.whole = None;
        self.front.write(&[0; HEAD], PLACES[place]);
        self.front.write(record, PLACES[place] + HEAD as u64);
        self.sequence += 1;
        let head = [
            MAGIC,
            self.sequence,
            standing as u64,
            record.len() as u64,
            xxh3_64(record),
        ];
        let head: Vec<u8> = head.into_iter().flat_map(u64::to_ne_bytes).collect();
        self.front.write(&head, PLACES[place]);
        match standing {
            Standing::Committed => self.committed = Some(place),
            Standing::Whole => self.whole = Some(place),
        }
        Ok(())
    }

    /// Marks the complete record as committed, and the previous one as obsolete.
    pub fn commit(&mut self) {
        if let Some(place) = self.whole.take() {
            let standing = (Standing::Committed as u64).to_ne_bytes();
            self.front.write(&standing, PLACES[place] + STANDING_AT);
            self.committed = Some(place);
        }
    }

    /// Discards the complete record.
    pub fn withdraw(&mut self) {
        if let Some(place) = self.whole.take() {
            self.front.write(&[0; HEAD], PLACES[place]);
        }
    }

    /// Clears both records.
    pub fn forget(&mut self) {
        (self.committed, self.whole) = (None, None);
        PLACES
            .iter()
            .for_each(|&place| self.front.write(&[0; HEAD], place));
    }
}

/// Reads sequence number, standing and bytes of a record; `None` if it is invalid.
fn read_at(file: &File, place: u64) -> io::Result<Option<(u64, Standing, Vec<u8>)>> {
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, place)?;
    let mut words = head
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let mut next = || words.next().unwrap_or_default();
    let (magic, sequence, standing, length, sum) = (next(), next(), next(), next(), next());
    let standing = match standing {
        1 => Standing::Whole,
        2 => Standing::Committed,
        _ => return Ok(None),
    };
    if magic != MAGIC || length > PLACES[1] {
        return Ok(None);
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, place + HEAD as u64)?;
    Ok((xxh3_64(&bytes) == sum).then_some((sequence, standing, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (Files, Records) {
        let files = Files::new().expect("files in memory");
        let records = Records::new(&files).expect("room for a mapping");
        (files, records)
    }

    fn found(files: &Files) -> Found {
        Records::open(files).expect("it can be read").1
    }

    fn has(committed: Option<&str>, whole: Option<&str>) -> Found {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Found {
            committed: committed.map(bytes),
            whole: whole.map(bytes),
        }
    }

    #[test]
    fn a_committed_record_stays_until_the_next_is() {
        let (files, mut records) = files();
        assert_eq!(found(&files), has(None, None));
        records.write(b"one", Standing::Whole).expect("written");
        assert_eq!(found(&files), has(None, Some("one")));
        records.commit();
        for (before, next) in [
            ("one", "two"),
            ("two", "a longer one"),
            ("a longer one", "4"),
        ] {
            records
                .write(b"given up", Standing::Whole)
                .expect("written");
            records.withdraw();
            assert_eq!(found(&files), has(Some(before), None));
            records
                .write(next.as_bytes(), Standing::Whole)
                .expect("written");
            assert_eq!(found(&files), has(Some(before), Some(next)));
            records.commit();
            assert_eq!(found(&files).committed, has(Some(next), None).committed);
            assert_eq!(found(&files).whole, None);
        }
        records
            .write(b"five", Standing::Committed)
            .expect("written");
        assert_eq!(found(&files), has(Some("five"), None));
        // A later process continues with the file in this way.
        let (mut records, _) = Records::open(&files).expect("it can be read");
        records.write(b"six", Standing::Whole).expect("written");
        assert_eq!(found(&files), has(Some("five"), Some("six")));
        records.forget();
        assert_eq!(found(&files), has(None, None));
    }

    #[test]
    fn half_a_record_is_none() {
        let (files, mut records) = files();
        records.write(b"one", Standing::Committed).expect("written");
        records
            .write(b"two and more", Standing::Whole)
            .expect("written");
        files
            .index
            .write_all_at(b"!", PLACES[1] + HEAD as u64 + 3)
            .expect("written");
        assert_eq!(found(&files), has(Some("one"), None));
    }
}
