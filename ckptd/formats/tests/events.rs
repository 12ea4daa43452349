//! Event files: written records are read, and truncated files are distinguished from damaged ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use understudy_formats::events::{
    Amount, AnnotationKind, AnnotationSaving, EndReason, Epoch, ErrorClass, EventReader,
    EventWriter, HEADER_LEN, JournalCalls, JournalRow, Kind, ProcessNumber, ReadError, Record,
    RecoveryStage, Role, Spare, SpareChoice, Traffic, Worker, file_name, rank_of_file_name,
};

/// Returns records of all kinds, with all stages of a recovery and all ends.
fn every_kind() -> Vec<Kind> {
    let (epoch, recovery) = (Epoch(3), 1);
    let mut kinds = vec![
        Kind::Start {
            pid: 4711,
            world_rank: ProcessNumber(5),
            role: Role::Spare(Spare(1)),
            workers: 4,
            spares: 2,
            host: "node-a".into(),
            program: "heat".into(),
            command: vec!["solver".into(), "input.txt".into()],
            version: "0.1.0".into(),
            job: "job".into(),
        },
        Kind::Config {
            settings: vec![
                ("interval".into(), "10".into()),
                ("empty".into(), String::new()),
            ],
        },
        Kind::Cut {
            epoch,
            at_call: 17,
            candidates: 900,
        },
        Kind::Capture {
            epoch,
            pages: 12,
            bytes: 49152,
            scan_ns: 1000,
            copy_ns: u64::MAX,
        },
        Kind::Ship {
            epoch,
            to: ProcessNumber(1),
            bytes: 49152,
            alike: 7,
            ns: 5,
        },
        Kind::Received {
            epoch,
            from: ProcessNumber(2),
            bytes: 1,
            ns: 6,
        },
        Kind::Elided {
            epoch,
            pages: 3,
            marks: vec![AnnotationSaving {
                way: AnnotationKind::Recompute,
                place: "main+0x10 (heat)".into(),
                start: 0x7000,
                bytes: 16384,
                whole_pages: 4,
                counts: true,
                held_pages: 4,
                saved_pages: 3,
            }],
        },
        Kind::Recomputed {
            regions: 1,
            bytes: 16384,
            ns: 8,
        },
        Kind::Reversed {
            pages: 4,
            wrong: 1,
            steps: 3,
            ns: 8,
        },
        Kind::Commit { epoch, ns: 7 },
        Kind::Kill { signal: 9 },
        Kind::Death {
            recovery,
            rank: ProcessNumber(3),
            worker: Worker(2),
            cause: "SIGKILL".into(),
        },
        Kind::Lost {
            reason: "no spare is left".into(),
            status: 75,
        },
        Kind::Takeover {
            recovery,
            from: Spare(1),
            as_worker: Worker(2),
        },
        Kind::Resume {
            recovery,
            epoch,
            total_ns: 8,
        },
        Kind::Refused {
            reason: "MPI_THREAD_MULTIPLE".into(),
        },
    ];
    kinds.extend(RecoveryStage::ALL.map(|stage| Kind::Stage {
        recovery,
        stage,
        ns: 9,
    }));
    let classes = [ErrorClass::Abandoned, ErrorClass::Other(-16)];
    kinds.extend(classes.map(|by| Kind::FailureDetected {
        recovery,
        failed: vec![ProcessNumber(2), ProcessNumber(3)],
        by,
    }));
    let ends = [
        EndReason::Finalized,
        EndReason::Exited(3),
        EndReason::Aborted(-1),
        EndReason::Released,
    ];
    kinds.extend(ends.map(|how| Kind::End { how }));
    kinds.extend(kinds_of_static_data());
    kinds.extend([
        Kind::Passed {
            calls: 12,
            points: vec![("cut.begin".into(), 3)],
        },
        Kind::SparesChosen {
            recovery,
            choices: vec![SpareChoice {
                worker: Worker(2),
                rank: ProcessNumber(5),
                by_daemon: true,
            }],
            reason: Some("no daemon".into()),
        },
        Kind::Interval {
            cost_ns: 1,
            mtbf_ns: 2,
            interval_ns: 3,
        },
    ]);
    kinds
}

/// Returns records of the set-up phase, of its replays, and of what the replays restore.
fn kinds_of_static_data() -> [Kind; 7] {
    let worker = Worker(1);
    let amount = Amount {
        count: 2,
        bytes: 64,
    };
    [
        Kind::TrialReplay {
            worker,
            journal: 100,
            pages: 10,
            different: 1,
            places: vec!["heap: 1".into()],
            failure: None,
            replay_ns: 11,
            phase_ns: 12,
        },
        Kind::ReplicaReduced {
            worker,
            pages: 9,
            left: 1,
            journal: 100,
        },
        Kind::OwnReplicaReduced { pages: 9, left: 1 },
        Kind::StaticData {
            worker,
            way: "replay".into(),
            reason: "proved".into(),
        },
        Kind::Rebuilt {
            worker,
            pages: 9,
            ns: 13,
        },
        Kind::Traffic {
            traffic: Traffic {
                worker,
                peers: vec![(Worker(2), amount)],
                other_peers: amount,
                comms: vec![(1, "world".into(), 4, None, amount, amount)],
                other_comms: [amount, amount],
                undone: amount,
            },
        },
        Kind::JournalCalls {
            calls: JournalCalls {
                worker,
                journal: amount,
                kept: Some(50),
                rows: vec![JournalRow {
                    procedure: "MPI_Bcast".into(),
                    place: "main+0x10 (heat)".into(),
                    calls: amount,
                }],
                other_places: 1,
                others: amount,
            },
        },
    ]
}

#[test]
fn the_sample_has_all_kinds() {
    let names: BTreeSet<&str> = every_kind().iter().map(Kind::name).collect();
    assert_eq!(names.len(), Kind::NAMES.len());
}

/// Creates a file with the records of [`every_kind`].
///
/// Returns its bytes, and the end of the header and of each record.
fn sample() -> (Vec<u8>, Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let writer = EventWriter::create(&dir.path().join("made/on/demand"), ProcessNumber(5));
    let mut ends = vec![HEADER_LEN];
    for kind in every_kind() {
        writer.emit(Epoch(2), kind);
        ends.push(std::fs::metadata(writer.path()).unwrap().len() as usize);
    }
    assert!(writer.is_on());
    (std::fs::read(writer.path()).unwrap(), ends)
}

fn read_all(bytes: &[u8]) -> (Vec<Record>, Option<ReadError>) {
    match EventReader::from_bytes(bytes.to_vec()) {
        Err(error) => (Vec::new(), Some(error)),
        Ok(reader) => {
            let (mut records, mut last) = (Vec::new(), None);
            for item in reader {
                assert!(last.is_none(), "nothing comes after an error");
                item.map_or_else(|error| last = Some(error), |record| records.push(record));
            }
            (records, last)
        }
    }
}

#[test]
fn what_is_written_is_read() {
    let (bytes, _) = sample();
    assert_eq!(
        EventReader::from_bytes(bytes.clone())
            .unwrap()
            .header()
            .rank,
        ProcessNumber(5)
    );
    let (records, error) = read_all(&bytes);
    assert!(error.is_none());
    assert!(records.iter().all(|record| record.epoch == Epoch(2)));
    assert!(records.is_sorted_by_key(|record| record.t));
    assert_eq!(
        records
            .into_iter()
            .map(|record| record.kind)
            .collect::<Vec<_>>(),
        every_kind()
    );
}

#[test]
fn truncated_at_every_byte() {
    let (bytes, ends) = sample();
    let (all, _) = read_all(&bytes);
    for length in 0..bytes.len() {
        let (records, error) = read_all(&bytes[..length]);
        let whole = ends
            .iter()
            .filter(|&&end| end <= length)
            .count()
            .saturating_sub(1);
        assert_eq!(records, all[..whole], "cut at {length}");
        match error {
            None => assert!(ends.contains(&length)),
            Some(error) => {
                assert!(
                    error.is_torn_tail() && !ends.contains(&length),
                    "cut at {length}: {error}"
                );
                assert!(
                    error
                        .to_string()
                        .contains(&format!("truncated at byte {length}"))
                );
            }
        }
    }
}

#[test]
fn every_bit_flip_is_noticed() {
    let (bytes, ends) = sample();
    let (all, _) = read_all(&bytes);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (records, error) = read_all(&damaged);
        let whole = ends
            .iter()
            .filter(|&&end| end <= bit / 8)
            .count()
            .saturating_sub(1);
        assert_eq!(records, all[..whole], "bit {bit}");
        assert!(error.is_some(), "bit {bit}");
    }
}

#[test]
fn other_versions_and_other_files_have_their_own_errors() {
    let (mut bytes, _) = sample();
    bytes[8] = 77;
    for length in [12, bytes.len()] {
        let (_, error) = read_all(&bytes[..length]);
        assert!(matches!(
            error,
            Some(ReadError::ForeignVersion { found: 77 })
        ));
        assert!(error.unwrap().to_string().starts_with("foreign version"));
    }
    assert!(matches!(
        read_all(b"#!/bin/sh\n").1,
        Some(ReadError::NotAnEventFile)
    ));
    assert!(matches!(
        EventReader::open(Path::new("/nonexistent")),
        Err(ReadError::Io(_))
    ));
}

#[test]
fn absurd_lengths_are_refused() {
    let (mut bytes, ends) = sample();
    bytes.truncate(ends[1]);
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    bytes.extend_from_slice(&[0; 100]);
    let (records, error) = read_all(&bytes);
    assert_eq!(records.len(), 1);
    assert!(matches!(
        error,
        Some(ReadError::Length { len: u32::MAX, .. })
    ));
}

#[test]
fn an_unusable_directory_disables_the_writer_with_one_message() {
    static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let writer =
        EventWriter::create_reporting(Path::new("/dev/null/events"), ProcessNumber(0), |message| {
            MESSAGES.lock().unwrap().push(message.to_owned());
        });
    assert!(!writer.is_on());
    writer.emit(
        Epoch(0),
        Kind::End {
            how: EndReason::Finalized,
        },
    );
    let messages = MESSAGES.lock().unwrap();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].contains("/dev/null/events") && messages[0].contains("another event directory")
    );
    assert!(!EventWriter::disabled().is_on());
}

#[test]
fn a_new_file_replaces_an_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let old = EventWriter::create(dir.path(), ProcessNumber(0));
    old.emit(
        Epoch(0),
        Kind::End {
            how: EndReason::Finalized,
        },
    );
    let new = EventWriter::create(dir.path(), ProcessNumber(0));
    old.emit(
        Epoch(0),
        Kind::End {
            how: EndReason::Finalized,
        },
    );
    assert_eq!(EventReader::open(new.path()).unwrap().count(), 0);
}

#[test]
fn file_names() {
    assert_eq!(file_name(ProcessNumber(12)), "rank-12.events");
    assert_eq!(rank_of_file_name("rank-12.events"), Some(ProcessNumber(12)));
    for other in [
        "rank-.events",
        "rank-1.event",
        "rank--1.events",
        "xrank-1.events",
        "rank-1.events~",
    ] {
        assert_eq!(rank_of_file_name(other), None);
    }
}
