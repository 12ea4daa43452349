//! Random bytes for the code that `make fuzz` runs longer and with coverage.
//!
//! Nothing may panic, and no allocation may follow an unverified length.

use fuzz::{epoch_reader, event_reader, line_messages, recording_allocator, settings_text};
use proptest::collection::vec;
use proptest::prelude::*;
use understudy_formats::events::{Epoch, EventWriter, Kind, ProcessNumber, Role, Worker};
use understudy_report::{Job, Live, Report};

#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

/// Fails if `act` allocates more than `most` bytes at once.
fn limited(most: usize, act: impl FnOnce()) -> Result<(), TestCaseError> {
    let got = recording_allocator::largest(act);
    prop_assert!(got <= most, "{got} bytes at once");
    Ok(())
}

/// Generates mostly small numbers, which make up most of a decoder's input.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![3 => 0u8..8, 1 => any::<u8>()], 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages(bytes in bytes()) {
        limited(understudy_wire::DECODE_LIMIT, || fuzz::messages(&bytes))?;
    }

    #[test]
    fn event_files(bytes in bytes()) {
        limited(event_reader::MAX_ALLOCATION, || event_reader::drive(&bytes))?;
    }

    #[test]
    fn epochs_on_disk(bytes in bytes()) {
        limited(epoch_reader::MAX_ALLOCATION, || epoch_reader::drive(&bytes))?;
    }

    #[test]
    fn messages_on_lines(bytes in bytes()) {
        limited(line_messages::MAX_ALLOCATION, || line_messages::drive(&bytes))?;
    }

    #[test]
    fn settings(bytes in vec(prop_oneof![b' '..=b'~', Just(b'\n')], 0..100)) {
        let most = settings_text::max_allocation(bytes.len());
        limited(most, || settings_text::drive(&bytes))?;
    }
}

/// Sums beyond the largest number are shown as the largest number.
///
/// Regression test: `make fuzz` has found sums that overflowed.
#[test]
fn sums_of_absurd_numbers_are_the_largest() {
    let directory = tempfile::tempdir().unwrap();
    let epoch = Epoch(2);
    for rank in 0..2 {
        let writer = EventWriter::create(directory.path(), ProcessNumber(rank));
        let start = Kind::Start {
            pid: 1,
            world_rank: ProcessNumber(rank),
            role: Role::Worker(Worker(rank)),
            workers: 2,
            spares: 0,
            host: "node".into(),
            program: "solver".into(),
            command: vec!["solver".into(), "input.txt".into()],
            version: "0.1.0".into(),
            job: "job".into(),
        };
        writer.emit(Epoch(0), start);
        let capture = Kind::Capture {
            epoch,
            pages: 1,
            bytes: u64::MAX - 1,
            scan_ns: u64::MAX - 1,
            copy_ns: 2,
        };
        writer.emit(epoch, capture);
        writer.emit(epoch, Kind::Commit { epoch, ns: 1 });
    }
    let mut live = Live::new(directory.path());
    let line = live.poll().unwrap().expect("there are records").to_line(0);
    assert!(
        line.contains("checkpoint 2 (16777216.0 TiB in 18446744073.710 s"),
        "{line}"
    );
    let report = Report::new(Job::load(directory.path()).unwrap());
    let costs = report.costs.expect("there was a checkpoint");
    assert_eq!(costs.pause_ns, u64::MAX);
}
