//! The journal as bytes.
//!
//! ```text
//! magic "USTDYJNL", version u32, length of the entries u64, XXH3 of all that follows u64,
//! entries, compressed (LZ4 block format): { repeats, Record } …, bincode 2 standard configuration
//! ```
//! Any change of a type in [`Record`] or [`Outcome`] bumps the version; another one is refused.

use bincode::config::standard;

const MAGIC: [u8; 8] = *b"USTDYJNL";
const VERSION: u32 = 1;
const HEADER: usize = 28;

/// Bytes that a call has written at an address of the user side.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Written {
    /// Where.
    pub address: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// Slot of the last record, which is of no call: what was written by the last cut itself.
pub const END: u16 = u16::MAX;

/// The outcome of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Record {
    /// Which procedure.
    pub slot: u16,
    /// Hash of its arguments.
    pub arguments: u32,
    /// What it returned; the bits of a double.
    pub result: u64,
    /// What it wrote.
    pub written: Vec<Written>,
}

/// A journal that has come to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    entries: Vec<u8>,
    /// The entry that was written last, which the next one may repeat: where it begins.
    last: Option<(Record, u64)>,
    /// How many calls it holds.
    pub calls: u64,
}

/// Why bytes are no journal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAJournal {
    /// Too short, or without the magic.
    #[error("it is no journal of this program")]
    Foreign,
    /// Of another version.
    #[error("it has format version {0}, and this build reads {VERSION}")]
    Version(u32),
    /// Its checksum is wrong, or what it contains makes no sense.
    #[error("it is damaged")]
    Damaged,
}

impl Journal {
    /// Adds a call. One that is equal to the call before it is only counted; otherwise it begins an entry, and the length of
    /// the entry before it, which is complete now, is returned.
    pub fn add(&mut self, record: Record) -> Option<usize> {
        self.calls += 1;
        match &mut self.last {
            Some((last, repeats)) if *last == record => {
                *repeats += 1;
                None
            }
            _ => {
                let length = self.flush();
                self.last = Some((record, 1));
                Some(length)
            }
        }
    }

    /// Completes the last entry, and returns its length.
    pub fn flush(&mut self) -> usize {
        let before = self.entries.len();
        if let Some((record, repeats)) = self.last.take() {
            let written = bincode::encode_into_std_write((repeats, record), &mut self.entries, standard());
            written.expect("memory takes everything");
        }
        self.entries.len() - before
    }

    /// How many bytes it takes before it is compressed, without the last call.
    pub fn size(&self) -> usize {
        self.entries.len()
    }

    /// The journal as bytes.
    pub fn encode(&mut self) -> Vec<u8> {
        self.flush();
        let body = lz4_flex::block::compress(&self.entries);
        let mut out = Vec::with_capacity(HEADER + body.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.entries.len() as u64).to_le_bytes());
        out.extend(xxhash_rust::xxh3::xxh3_64(&body).to_le_bytes());
        out.extend(body);
        out
    }

    /// Reads what [`Journal::encode`] has made.
    pub fn decode(bytes: &[u8]) -> Result<Reader, NotAJournal> {
        let (header, body) = bytes.split_at_checked(HEADER).ok_or(NotAJournal::Foreign)?;
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap_or_default());
        if header[..8] != MAGIC {
            return Err(NotAJournal::Foreign);
        }
        let version = u32::from_le_bytes(header[8..12].try_into().unwrap_or_default());
        if version != VERSION {
            return Err(NotAJournal::Version(version));
        }
        if word(20) != xxhash_rust::xxh3::xxh3_64(body) {
            return Err(NotAJournal::Damaged);
        }
        let length = usize::try_from(word(12)).map_err(|_| NotAJournal::Damaged)?;
        let entries = lz4_flex::block::decompress(body, length).map_err(|_| NotAJournal::Damaged)?;
        Ok(Reader {
            entries,
            at: 0,
            current: None,
        })
    }
}

/// Gives the calls of a journal one after the other.
#[derive(Debug)]
pub struct Reader {
    entries: Vec<u8>,
    at: usize,
    current: Option<(Record, u64)>,
}

impl Reader {
    /// The next call; `None` at the end.
    pub fn next(&mut self) -> Result<Option<&Record>, NotAJournal> {
        match &mut self.current {
            Some((_, repeats)) if *repeats > 1 => *repeats -= 1,
            _ if self.at == self.entries.len() => return Ok(None),
            current => {
                let ((repeats, record), length): ((u64, Record), usize) =
                    bincode::decode_from_slice(&self.entries[self.at..], standard())
                        .map_err(|_| NotAJournal::Damaged)?;
                self.at += length;
                *current = Some((record, repeats));
            }
        }
        Ok(self.current.as_ref().map(|(record, _)| record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(slot: u16, byte: u8) -> Record {
        Record {
            slot,
            written: vec![Written {
                address: 4096,
                bytes: vec![byte; 100],
            }],
            ..Record::default()
        }
    }

    fn sample() -> (Vec<Record>, Vec<u8>) {
        let mut records = vec![record(1, 1)];
        records.extend(std::iter::repeat_n(record(2, 0), 1000));
        records.extend([record(3, 7), record(2, 0)]);
        let mut journal = Journal::default();
        let lengths: Vec<_> = records.iter().map(|record| journal.add(record.clone())).collect();
        assert_eq!(lengths.iter().flatten().count(), 4);
        let last = journal.flush();
        assert_eq!(lengths.iter().flatten().sum::<usize>() + last, journal.size());
        assert_eq!(journal.calls, records.len() as u64);
        (records, journal.encode())
    }

    #[test]
    fn calls_come_back_in_order_and_repeats_are_short() {
        let (records, bytes) = sample();
        assert!(bytes.len() < 500, "{}", bytes.len());
        let mut reader = Journal::decode(&bytes).unwrap();
        for record in &records {
            assert_eq!(reader.next().unwrap(), Some(record));
        }
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn damage_is_noticed() {
        let (_, bytes) = sample();
        for at in [0, 8, 12, 20, HEADER, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Journal::decode(&damaged).is_err(), "byte {at}");
        }
        assert_eq!(
            Journal::decode(&bytes[..bytes.len() - 1]).unwrap_err(),
            NotAJournal::Damaged
        );
        assert_eq!(Journal::decode(b"short").unwrap_err(), NotAJournal::Foreign);
    }
}
