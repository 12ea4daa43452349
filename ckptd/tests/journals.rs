//! Journals in `understudy inspect` and `understudy report`, on event files made for the test.

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use understudy_formats::events::{
    Amount, Epoch, EventWriter, JournalCalls, JournalRow, Kind, ProcessNumber, Role, Traffic,
    Worker,
};

fn understudy(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_understudy"))
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn inspect(dir: &Path) -> (String, Value) {
    let dir = dir.to_str().unwrap();
    let json: Value = serde_json::from_str(&understudy(&["inspect", dir, "--json"])).unwrap();
    (understudy(&["inspect", dir]), json["events"][0].clone())
}

fn amount(count: u64, bytes: u64) -> Amount {
    Amount { count, bytes }
}

fn start(rank: u32, role: Role, workers: u32) -> Kind {
    Kind::Start {
        pid: 100 + rank,
        world_rank: ProcessNumber(rank),
        role,
        workers,
        spares: 0,
        host: "node".into(),
        program: "solver".into(),
        command: vec!["solver".into(), "input.txt".into()],
        version: "0.1.0".into(),
        job: "job".into(),
    }
}

fn row(procedure: &str, place: &str, calls: Amount) -> JournalRow {
    JournalRow {
        procedure: procedure.into(),
        place: place.into(),
        calls,
    }
}

#[test]
fn journals_are_added_up_by_place() {
    let dir = tempfile::tempdir().unwrap();
    let writers = [0, 1].map(|rank| EventWriter::create(dir.path(), ProcessNumber(rank)));
    for (rank, writer) in (0..).zip(&writers) {
        writer.emit(Epoch(1), start(rank, Role::Worker(Worker(rank)), 2));
    }
    let emit = |worker: u32, journal, kept, rows, (other_places, others)| {
        let calls = JournalCalls {
            worker: Worker(worker),
            journal,
            kept,
            rows,
            other_places,
            others,
        };
        writers[worker as usize].emit(Epoch(1), Kind::JournalCalls { calls });
    };
    let none = (0, Amount::default());
    // The table of an earlier phase, which the worker's next table replaces.
    emit(
        0,
        amount(1, 1),
        Some(7),
        vec![row("MPI_Send", "old", amount(1, 1))],
        none,
    );
    let rows = vec![
        row("MPI_Bcast", "main+0x10 (a)", amount(3, 600)),
        row("MPI_Recv", "read+0x8 (a)", amount(4, 300)),
    ];
    emit(0, amount(7, 900), Some(100), rows, none);
    let rows = vec![
        row("MPI_Recv", "read+0x8 (a)", amount(5, 500)),
        row("MPI_Recv", "<b>", amount(1, 80)),
    ];
    emit(1, amount(13, 600), None, rows, (2, amount(7, 20)));
    let (text, events) = inspect(dir.path());
    let calls = &events["journal_calls"];
    assert_eq!(calls["total"], json!({"count": 20, "bytes": 1500}));
    assert_eq!(
        (&calls["workers"], &calls["kept"], &calls["not_kept"]),
        (&json!(2), &json!(100), &json!(1))
    );
    assert_eq!(
        calls["rows"],
        json!([
            {"procedure": "MPI_Recv", "place": "read+0x8 (a)", "calls": {"count": 9, "bytes": 800}},
            {"procedure": "MPI_Bcast", "place": "main+0x10 (a)", "calls": {"count": 3, "bytes": 600}},
            {"procedure": "MPI_Recv", "place": "<b>", "calls": {"count": 1, "bytes": 80}},
        ])
    );
    for words in [
        "  set-up logs of 2 workers: 20 calls, 1.5 KiB, kept compressed as 100 B\n",
        "          9       800 B   53.3%  MPI_Recv at read+0x8 (a)\n",
        "          3       600 B   40.0%  MPI_Bcast at main+0x10 (a)\n",
        "          7        20 B    1.3%  all others\n",
    ] {
        assert!(text.contains(words), "no\n{words}in\n{text}");
    }
    let page = understudy(&["report", dir.path().to_str().unwrap()]);
    assert!(page.contains(
        "<td>9</td><td>800 B</td><td>53.3%</td><td>MPI_Recv</td><td \
            class=\"place\">read+0x8 (a)</td>"
    ));
    assert!(page.contains("&lt;b&gt;"));
}

/// A record of traffic counts, which earlier builds have written, is skipped.
#[test]
fn records_of_traffic_are_decoded_and_not_reported() {
    let dir = tempfile::tempdir().unwrap();
    let writer = EventWriter::create(dir.path(), ProcessNumber(0));
    writer.emit(Epoch(1), start(0, Role::Worker(Worker(0)), 1));
    let world = (
        0,
        "MPI_COMM_WORLD".to_owned(),
        3,
        None,
        amount(2, 48),
        amount(1, 8),
    );
    let traffic = Traffic {
        worker: Worker(0),
        peers: vec![(Worker(0), amount(2, 48))],
        other_peers: Amount::default(),
        comms: vec![world],
        other_comms: Default::default(),
        undone: Amount::default(),
    };
    writer.emit(Epoch(1), Kind::Traffic { traffic });
    let (text, events) = inspect(dir.path());
    assert_eq!(events["kinds"]["traffic"]["records"], 1);
    assert!(
        text.contains("traffic") && !text.contains("MPI_COMM_WORLD"),
        "{text}"
    );
    let timeline = understudy(&["events", dir.path().to_str().unwrap()]);
    assert!(
        timeline.contains("traffic of worker 0, not reported any more\n"),
        "{timeline}"
    );
}
