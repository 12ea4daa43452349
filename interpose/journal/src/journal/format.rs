//! Format of the journal as bytes.
//!
//! ```text
//! magic "USTDYJNL", version u32, XXH3 of all following bytes u64,
//! entries, compressed (`compression`): { times, number of records, Record … } …,
//! in bincode 2's standard configuration
//! ```
//! An entry is a short sequence of calls and the number of its repetitions. A program that polls
//! repeats such a sequence: it calls `MPI_Test` at a few call sites in turn, with equal outcomes.
//! Any change of a type in [`Record`] or [`super::inputs::SyscallOutcome`] increments the version.
//! A journal of another version is refused.

use bincode::config::standard;
use std::collections::VecDeque;
use understudy_policy::compression;

const MAGIC: [u8; 8] = *b"USTDYJNL";
const VERSION: u32 = 3;
const HEADER: usize = 20;

/// Bytes that a call wrote at an address of the program side.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode)]
pub struct Written {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// Slot of the last record: data of receives that were complete at the last cut.
///
/// The program had not yet made the calls that complete these receives.
pub const END_SLOT: u16 = u16::MAX;

/// The outcome of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode)]
pub struct Record {
    pub slot: u16,
    /// Hash of the call's arguments.
    pub arguments: u32,
    /// Return value; for a floating-point result the bits of a double.
    pub result: u64,
    pub written: Vec<Written>,
}

impl Record {
    /// Returns the number of bytes that the call wrote.
    fn length(&self) -> usize {
        self.written.iter().map(|piece| piece.bytes.len()).sum()
    }
}

/// Longest sequence of calls whose repetition is detected.
const MAX_SEQUENCE: usize = 8;

/// Slot of a procedure, and the return address of its call.
pub type Site = (u16, u64);

/// Journal that is being written.
///
/// The last calls wait in `recent` before they are written to an entry. When the last *p* of them
/// equal the *p* calls before, for a period *p* of at most [`MAX_SEQUENCE`], `recent` becomes one
/// period, and following calls that continue the repetition are only counted. For example, the
/// calls `A B C B C B C D` become the entries 1 × `A`, 3 × `B C`, 1 × `D`.
#[derive(Default)]
pub struct Journal {
    /// Encoded entries.
    entries: Vec<u8>,
    /// The last calls with their call sites, which are not written yet.
    recent: VecDeque<(Record, u64)>,
    /// Repetitions of the recent calls, if these are a period.
    repetitions: Option<Repetitions>,
    /// Bytes that the recent calls wrote.
    recent_bytes: usize,
    /// Number of calls in the journal.
    pub calls: u64,
}

/// Repetitions of a sequence of calls.
struct Repetitions {
    /// Number of complete repetitions.
    times: u64,
    /// Number of calls of the repetition under way.
    position: usize,
}

/// Reason why bytes are not a journal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Too short, or without the magic.
    #[error("it is not a set-up log of this program")]
    Foreign,
    #[error("it has format version {0}, and this build reads {VERSION}")]
    Version(u32),
    /// The checksum is wrong, or the content is invalid.
    #[error("it is damaged")]
    Damaged,
}

impl Journal {
    /// Adds a call that was made from `call_site`.
    ///
    /// `on_written` gets the call site and the number of encoded bytes of each call that is written
    /// to an entry: this call or an earlier one. Calls that repeat others take no bytes.
    pub fn add(&mut self, record: Record, call_site: u64, mut on_written: impl FnMut(Site, usize)) {
        self.calls += 1;
        if let Some(Repetitions { times, position }) = &mut self.repetitions {
            if self.recent[*position].0 == record {
                *position += 1;
                if *position == self.recent.len() {
                    (*times, *position) = (*times + 1, 0);
                }
                return;
            }
            self.end_repetitions(&mut on_written);
        }
        self.recent_bytes += record.length();
        self.recent.push_back((record, call_site));
        let period = (1..=self.recent.len() / 2).find(|&period| self.repeats(period));
        if let Some(period) = period {
            self.write_until(2 * period, &mut on_written);
            let repeated: usize = self
                .recent
                .drain(period..)
                .map(|(record, _)| record.length())
                .sum();
            self.recent_bytes -= repeated;
            self.repetitions = Some(Repetitions {
                times: 2,
                position: 0,
            });
        } else {
            self.write_until(2 * MAX_SEQUENCE - 1, &mut on_written);
        }
    }

    /// True if the last `period` calls repeat the `period` calls before them.
    fn repeats(&self, period: usize) -> bool {
        let calls = self.recent.iter().rev().map(|(record, _)| record);
        calls
            .clone()
            .take(period)
            .eq(calls.skip(period).take(period))
    }

    /// Writes the oldest of the recent calls, so that `left` calls remain.
    fn write_until(&mut self, left: usize, on_written: &mut impl FnMut(Site, usize)) {
        while self.recent.len() > left {
            self.write(1, 1, on_written);
        }
    }

    /// Writes the `count` oldest of the recent calls as an entry with `times` repetitions.
    fn write(&mut self, times: u64, count: usize, on_written: &mut impl FnMut(Site, usize)) {
        let mut before = self.entries.len();
        encode(&(times, count as u64), &mut self.entries);
        for (record, call_site) in self.recent.drain(..count) {
            self.recent_bytes -= record.length();
            encode(&record, &mut self.entries);
            on_written((record.slot, call_site), self.entries.len() - before);
            before = self.entries.len();
        }
    }

    /// Ends a sequence of repetitions: the next call differs, or the journal ends.
    fn end_repetitions(&mut self, on_written: &mut impl FnMut(Site, usize)) {
        let Some(Repetitions { times, position }) = self.repetitions.take() else {
            return;
        };
        // The calls of an incomplete repetition become recent calls.
        let incomplete: Vec<_> = self.recent.iter().take(position).cloned().collect();
        self.write(times, self.recent.len(), on_written);
        self.recent_bytes = incomplete.iter().map(|(record, _)| record.length()).sum();
        self.recent.extend(incomplete);
    }

    /// Writes all recent calls to entries.
    pub fn flush(&mut self, mut on_written: impl FnMut(Site, usize)) {
        self.end_repetitions(&mut on_written);
        self.write_until(0, &mut on_written);
    }

    /// Returns the length in bytes before compression.
    pub fn size(&self) -> usize {
        self.entries.len() + self.recent_bytes
    }

    /// Returns the journal as bytes.
    pub fn encode(&mut self) -> Vec<u8> {
        self.flush(|_, _| {});
        let body = compression::pack(&self.entries);
        let mut out = Vec::with_capacity(HEADER + body.len());
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(xxhash_rust::xxh3::xxh3_64(&body).to_le_bytes());
        out.extend(body);
        out
    }

    /// Reads bytes that [`Journal::encode`] returned.
    pub fn decode(bytes: &[u8]) -> Result<JournalReader, FormatError> {
        let (header, body) = bytes.split_at_checked(HEADER).ok_or(FormatError::Foreign)?;
        if header[..8] != MAGIC {
            return Err(FormatError::Foreign);
        }
        let version = u32::from_le_bytes(header[8..12].try_into().unwrap_or_default());
        if version != VERSION {
            return Err(FormatError::Version(version));
        }
        if header[12..] != xxhash_rust::xxh3::xxh3_64(body).to_le_bytes() {
            return Err(FormatError::Damaged);
        }
        let entries = compression::unpack(body).map_err(|_| FormatError::Damaged)?;
        Ok(JournalReader {
            entries,
            at: 0,
            calls: Vec::new(),
            left: 0,
        })
    }
}

fn encode(value: &impl bincode::Encode, to: &mut Vec<u8>) {
    let written = bincode::encode_into_std_write(value, to, standard());
    written.expect("a write to a vector does not fail");
}

/// Iterator over the calls of a journal.
#[derive(Debug)]
pub struct JournalReader {
    entries: Vec<u8>,
    /// Offset of the next entry.
    at: usize,
    /// Calls of the current entry.
    calls: Vec<Record>,
    /// Number of calls that remain in the current entry, with repetitions.
    left: u64,
}

impl JournalReader {
    /// Returns the next call; `None` at the end.
    pub fn next(&mut self) -> Result<Option<&Record>, FormatError> {
        if self.left == 0 {
            if self.at == self.entries.len() {
                return Ok(None);
            }
            let (times, count): (u64, u64) = self.decode()?;
            let calls = (0..count)
                .map(|_| self.record())
                .collect::<Result<Vec<_>, _>>()?;
            self.left = times
                .checked_mul(calls.len() as u64)
                .ok_or(FormatError::Damaged)?;
            self.calls = calls;
            if self.left == 0 {
                return Err(FormatError::Damaged);
            }
        }
        let count = self.calls.len();
        let at = (count - (self.left % count as u64) as usize) % count;
        self.left -= 1;
        Ok(self.calls.get(at))
    }

    /// Decodes a record; allocates memory only for bytes that exist.
    fn record(&mut self) -> Result<Record, FormatError> {
        let (slot, arguments, result, count): (u16, u32, u64, u64) = self.decode()?;
        let piece = |_| {
            let (address, bytes): (u64, &[u8]) = self.decode()?;
            let bytes = bytes.to_vec();
            Ok(Written { address, bytes })
        };
        Ok(Record {
            slot,
            arguments,
            result,
            written: (0..count).map(piece).collect::<Result<_, _>>()?,
        })
    }

    fn decode<'a, T: bincode::BorrowDecode<'a, ()>>(&'a mut self) -> Result<T, FormatError> {
        let decoded = bincode::borrow_decode_from_slice(&self.entries[self.at..], standard());
        let (value, length) = decoded.map_err(|_| FormatError::Damaged)?;
        self.at += length;
        Ok(value)
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

    fn journal_of(records: &[Record]) -> (usize, Vec<u8>) {
        let mut journal = Journal::default();
        let mut on_written = 0;
        for record in records {
            journal.add(record.clone(), 7, |_, bytes| on_written += bytes);
        }
        journal.flush(|_, bytes| on_written += bytes);
        assert_eq!(
            (on_written, journal.calls),
            (journal.size(), records.len() as u64)
        );
        (on_written, journal.encode())
    }

    fn sample() -> (Vec<Record>, Vec<u8>) {
        let mut records = vec![record(1, 1)];
        records.extend(std::iter::repeat_n(record(2, 0), 1000));
        records.extend([record(3, 7), record(2, 0)]);
        let (size, bytes) = journal_of(&records);
        assert!(size < 500, "{size}");
        (records, bytes)
    }

    fn assert_decodes_to(records: &[Record], bytes: &[u8]) {
        let mut reader = Journal::decode(bytes).unwrap();
        for record in records {
            assert_eq!(reader.next().unwrap(), Some(record));
        }
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn calls_are_decoded_in_order_and_repeats_are_short() {
        let (records, bytes) = sample();
        assert!(bytes.len() < 500, "{}", bytes.len());
        assert_decodes_to(&records, &bytes);
    }

    #[test]
    fn repeated_sequences_are_short() {
        for period in 1..=MAX_SEQUENCE as u16 {
            for rest in 0..period {
                let call = |at: u16| record(at % period, 3);
                let records: Vec<Record> = (0..1000 * period + rest)
                    .map(call)
                    .chain([record(99, 1)])
                    .collect();
                let (size, bytes) = journal_of(&records);
                assert!(
                    size < 2200,
                    "{size} bytes for {period} in turn and {rest} more"
                );
                assert_decodes_to(&records, &bytes);
            }
        }
    }

    #[test]
    fn any_order_is_decoded() {
        let mut state = 1u64;
        for slots in [2, 3, 5, 9] {
            let records: Vec<Record> = std::iter::repeat_with(|| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                record(((state >> 33) % slots) as u16, 0)
            })
            .take(5000)
            .collect();
            let (_, bytes) = journal_of(&records);
            assert_decodes_to(&records, &bytes);
        }
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
            FormatError::Damaged
        );
        assert_eq!(Journal::decode(b"short").unwrap_err(), FormatError::Foreign);
    }

    /// Entries announce more records, pieces or bytes than follow; the reader reports damage.
    ///
    /// The reader once allocated memory for the announced lengths.
    #[test]
    fn lengths_without_content_are_damage() {
        let most = u64::MAX >> 1;
        let of_records = encoded(&(1u64, most));
        let of_pieces = encoded(&(1u64, 1u64, (1u16, 2u32, 3u64, most)));
        let of_bytes = encoded(&(1u64, 1u64, (1u16, 2u32, 3u64, 1u64), (4096u64, most)));
        for entries in [of_records, of_pieces, of_bytes] {
            let mut journal = Journal {
                entries,
                ..Journal::default()
            };
            let mut reader = Journal::decode(&journal.encode()).unwrap();
            assert_eq!(reader.next(), Err(FormatError::Damaged));
        }
    }

    fn encoded(what: &impl bincode::Encode) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(what, &mut bytes);
        bytes
    }
}
