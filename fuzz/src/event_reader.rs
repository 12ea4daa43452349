//! Reader and follower of event files, and the report, fed with arbitrary bytes.
//!
//! The follower reads files while they are written.

use super::sums;
use std::path::Path;
use understudy_formats::events::{
    EventFollower, EventReader, ProcessNumber, ReadError, Record, encode_record, file_name,
};
use understudy_report::{Job, Live, Report};

/// Largest permitted allocation.
pub const MAX_ALLOCATION: usize = 16 * understudy_formats::events::MAX_PAYLOAD;

/// Reads all bytes but the first two as event files.
///
/// The first byte determines the number of ranks, and whether checksums are corrected. The second
/// byte determines where the follower first finds the end of the file.
pub fn drive(bytes: &[u8]) {
    let [how, cut, bytes @ ..] = bytes else {
        return;
    };
    let directory = tempfile::tempdir_in("/dev/shm").expect("a memory file system");
    let ranks = 1 + usize::from(how % 3);
    for (rank, part) in (0..).zip(bytes.chunks(bytes.len().div_ceil(ranks).max(1))) {
        let mut file = part.to_vec();
        if how & 0x80 == 0 {
            sums::events(&mut file);
        }
        let path = directory.path().join(file_name(ProcessNumber(rank)));
        check_follower(&path, &file, usize::from(*cut) * file.len() / 255);
    }
    report(directory.path());
}

/// Checks that the follower returns the records and the damage that the reader returns.
///
/// Also checks that no record changes when it is written and read again.
fn check_follower(path: &Path, file: &[u8], cut: usize) {
    let (read, damage) = read(file);
    for record in &read {
        if let Some(frame) = encode_record(record) {
            let mut again = file[..understudy_formats::events::HEADER_LEN].to_vec();
            again.extend(frame);
            assert_eq!(self::read(&again).0, std::slice::from_ref(record));
        }
    }
    std::fs::write(path, &file[..cut]).expect("there is room");
    let mut follower = EventFollower::open(path).expect("it is there");
    let mut followed = Vec::new();
    for length in [cut, file.len()] {
        std::fs::write(path, &file[..length]).expect("there is room");
        loop {
            match follower.poll() {
                Ok(Some(framed)) => followed.push(framed.record),
                Ok(None) => break,
                Err(error) => {
                    assert!(damage.is_some_and(|it| it.to_string() == error.to_string()));
                    assert_eq!(followed, read);
                    return;
                }
            }
        }
    }
    assert_eq!(followed, read);
}

fn read(file: &[u8]) -> (Vec<Record>, Option<ReadError>) {
    let (mut records, mut damage) = (Vec::new(), None);
    match EventReader::from_bytes(file.to_vec()) {
        Ok(reader) => reader.for_each(|item| match item {
            Ok(record) => records.push(record),
            Err(error) => damage = Some(error),
        }),
        Err(error) => damage = Some(error),
    }
    (records, damage)
}

/// Makes a report, which must be possible whatever the records contain.
fn report(directory: &Path) {
    let Ok(job) = Job::load(directory) else {
        return;
    };
    let report = Report::new(job);
    let mut text = Vec::new();
    report.write(&mut text, true).expect("memory takes it");
    assert!(!report.timeline.has_changed());
    let mut live = Live::new(directory);
    if let Ok(Some(state)) = live.poll() {
        state.to_line(u64::MAX);
        state.to_line(0);
    }
}
