//! The reader of set-up logs, fed with arbitrary bytes.

#[allow(dead_code)]
#[path = "../../interpose/journal/src/journal/format.rs"]
mod format;

use format::Journal;
use xxhash_rust::xxh3::xxh3_64;

/// Largest permitted allocation for a file of this length.
///
/// The file is compressed, so its content can be many times as long.
pub fn max_allocation(length: usize) -> usize {
    (1 << 20) + (32 << 10) * length
}

/// Limit of calls that are read, because short files can repeat calls very often.
const MAX_CALLS: usize = 10_000;

/// Reads all bytes but the first as a set-up log.
///
/// The first byte determines whether the checksum is corrected, and whether the bytes are
/// compressed first. The records of a log must not change when they are written and read again.
pub fn drive(bytes: &[u8]) {
    let Some((&how, content)) = bytes.split_first() else {
        return;
    };
    let file = match how % 4 {
        0 => content.to_vec(),
        1 => sealed(content.to_vec()),
        _ => sealed([&[0; 20], understudy_policy::compression::pack(content).as_slice()].concat()),
    };
    let Ok(mut reader) = Journal::decode(&file) else {
        return;
    };
    let mut again = Journal::default();
    let mut records = Vec::new();
    while let Ok(Some(record)) = reader.next() {
        again.add(record.clone(), 1, |_, _| {});
        records.push(record.clone());
        if records.len() == MAX_CALLS {
            break;
        }
    }
    assert_eq!(again.calls, records.len() as u64);
    let mut reader = Journal::decode(&again.encode()).expect("just encoded");
    for record in &records {
        assert_eq!(reader.next(), Ok(Some(record)));
    }
    assert_eq!(reader.next(), Ok(None));
    assert!(again.size() <= usize::MAX / 2);
}

/// Corrects magic number, version and checksum.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    if file.len() >= 20 {
        file[..8].copy_from_slice(b"USTDYJNL");
        file[8..12].copy_from_slice(&3u32.to_le_bytes());
        let check = xxh3_64(&file[20..]);
        file[12..20].copy_from_slice(&check.to_le_bytes());
    }
    file
}
