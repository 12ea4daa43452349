//! What `understudy inspect` and `understudy report` make of traffic and journals, on event files made for it.

use ckptd::events::{
    Amount, CommTraffic, Epoch, EventWriter, JournalCalls, JournalRow, Kind, PeerTraffic,
    ProcessNumber, Role, Spare, Traffic, Worker,
};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

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

fn comm(id: u64, name: &str, messages: Amount, collectives: Amount) -> CommTraffic {
    CommTraffic {
        id,
        name: name.into(),
        size: 3,
        remote: None,
        messages,
        collectives,
    }
}

fn traffic(worker: u32, peers: &[(u32, Amount)], comms: Vec<CommTraffic>) -> Traffic {
    let peer = |&(to, messages): &(u32, Amount)| PeerTraffic {
        to: Worker(to),
        messages,
    };
    Traffic {
        worker: Worker(worker),
        peers: peers.iter().map(peer).collect(),
        other_peers: Amount::default(),
        comms,
        other_comms: Default::default(),
        undone: Amount::default(),
    }
}

/// Three workers; the part of worker 1 is taken over by rank 3, whose counts go on from those of an epoch.
fn job(dir: &Path) {
    let writers = [0, 1, 2, 3].map(|rank| EventWriter::create(dir, ProcessNumber(rank)));
    let emit = |rank: usize, kind| writers[rank].emit(Epoch(4), kind);
    for rank in 0..3 {
        emit(
            rank,
            start(rank as u32, Role::Worker(Worker(rank as u32)), 3),
        );
    }
    emit(3, start(3, Role::Spare(Spare(0)), 3));
    let (none, world) = (Amount::default(), "MPI_COMM_WORLD");
    // These are not the last.
    emit(0, Kind::Traffic(traffic(0, &[(1, amount(7, 700))], vec![])));
    emit(
        1,
        Kind::Traffic(traffic(
            1,
            &[(0, amount(9, 9000))],
            vec![comm(0, world, amount(9, 9000), none)],
        )),
    );
    let of_0 = vec![
        comm(0, world, amount(10, 1000), amount(4, 32)),
        comm((2 << 40) | 3, "", amount(1, 24), none),
    ];
    emit(
        0,
        Kind::Traffic(traffic(
            0,
            &[(1, amount(10, 1000)), (2, amount(1, 24))],
            of_0,
        )),
    );
    let of_1 = vec![comm(0, world, amount(20, 4096), amount(4, 64))];
    emit(3, Kind::Traffic(traffic(1, &[(2, amount(20, 4096))], of_1)));
    let of_2 = vec![
        comm(CommTraffic::SELF, "", amount(5, 0), none),
        comm((2 << 40) | 3, "", none, amount(2, 16)),
        CommTraffic {
            remote: Some(2),
            ..comm(9, "ocean", none, amount(1, 8))
        },
    ];
    let undone = amount(3, 99);
    let of_2 = traffic(2, &[(2, amount(5, 0))], of_2);
    emit(2, Kind::Traffic(Traffic { undone, ..of_2 }));
}

#[test]
fn the_last_record_of_each_worker_counts() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let (text, events) = inspect(dir.path());
    let it = &events["traffic"];
    let pair = |from: u32, to: u32, count: u64, bytes: u64| json!({"from": from, "to": to, "messages": {"count": count, "bytes": bytes}});
    assert_eq!(it["workers"], 3);
    assert_eq!(
        it["pairs"],
        json!([
            pair(0, 1, 10, 1000),
            pair(0, 2, 1, 24),
            pair(1, 2, 20, 4096),
            pair(2, 2, 5, 0)
        ])
    );
    assert_eq!(it["undone"], json!({"count": 3, "bytes": 99}));
    // World: 10 + 20 messages, 1000 + 4096 bytes; 4 + 4 collectives, 32 + 64 bytes.
    let world = json!({"name": "MPI_COMM_WORLD", "id": 0, "size": 3, "remote": null,
        "messages": {"count": 30, "bytes": 5096}, "collectives": {"count": 8, "bytes": 96}});
    assert_eq!(it["communicators"][0], world);
    for words in [
        // Each column is as wide as the widest entry of the matrix, `1000 B`.
        "  messages that the program's workers have sent, by worker from (down) and to (across)\n         0   1   2\n     0   -  10   1\n     1   -   -  20\n     2   -   -   5\n",
        "     0        -   1000 B     24 B\n     1        -        -  4.0 KiB\n     2        -        -      0 B\n",
        "  MPI_COMM_WORLD                    3         30     5.0 KiB            8        96 B\n",
        "  communicator 3 of worker 2        3          1        24 B            2        16 B\n",
        "  ocean (to 2 others)               3          0         0 B            1         8 B\n",
        "  MPI_COMM_SELF                     3          5         0 B            0         0 B\n",
        "  sent twice, since rollbacks have undone it: 3 messages (99 B)\n",
    ] {
        assert!(text.contains(words), "no\n{words}in\n{text}");
    }
}

#[test]
fn many_workers_are_listed_by_pair() {
    let dir = tempfile::tempdir().unwrap();
    for rank in 0..17 {
        let writer = EventWriter::create(dir.path(), ProcessNumber(rank));
        writer.emit(Epoch(1), start(rank, Role::Worker(Worker(rank)), 17));
        // To all others, the most to the one after it.
        let to = (0..17).filter(|&to| to != rank);
        let sent: Vec<_> = to
            .map(|to| {
                (
                    to,
                    amount(
                        1,
                        if to == (rank + 1) % 17 {
                            2000 + u64::from(rank)
                        } else {
                            10
                        },
                    ),
                )
            })
            .collect();
        writer.emit(Epoch(1), Kind::Traffic(traffic(rank, &sent, vec![])));
    }
    let (text, events) = inspect(dir.path());
    assert_eq!(
        events["traffic"]["pairs"].as_array().unwrap().len(),
        17 * 16
    );
    assert!(text.contains("272 pairs of workers have exchanged messages, most of all:\n    worker 16 to worker 0: 1 message, 2.0 KiB\n    worker 15 to worker 16: "), "{text}");
    assert_eq!(text.matches("to worker ").count(), 20);
    let page = understudy(&["report", dir.path().to_str().unwrap()]);
    assert_eq!(page.matches("<rect class=\"message\"").count(), 272);
    assert_eq!(page.matches("<rect class=\"nothing\"").count(), 17);
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
    let tell = |worker: u32, journal, kept, rows, (other_places, others)| {
        let calls = JournalCalls {
            worker: Worker(worker),
            journal,
            kept,
            rows,
            other_places,
            others,
        };
        writers[worker as usize].emit(Epoch(1), Kind::JournalCalls(calls));
    };
    let none = (0, Amount::default());
    // Of an earlier phase.
    tell(
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
    tell(0, amount(7, 900), Some(100), rows, none);
    let rows = vec![
        row("MPI_Recv", "read+0x8 (a)", amount(5, 500)),
        row("MPI_Recv", "<b>", amount(1, 80)),
    ];
    tell(1, amount(13, 600), None, rows, (2, amount(7, 20)));
    let (text, events) = inspect(dir.path());
    let it = &events["journal_calls"];
    assert_eq!(it["total"], json!({"count": 20, "bytes": 1500}));
    assert_eq!(
        (&it["workers"], &it["kept"], &it["not_kept"]),
        (&json!(2), &json!(100), &json!(1))
    );
    assert_eq!(
        it["rows"],
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
    assert!(
        page.contains("<td>9</td><td>800 B</td><td>53.3%</td><td>MPI_Recv</td><td class=\"place\">read+0x8 (a)</td>")
    );
    assert!(page.contains("&lt;b&gt;") && page.contains("No worker has told what it has sent."));
}

#[test]
fn the_page_draws_who_talked_to_whom() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let page = understudy(&["report", dir.path().to_str().unwrap()]);
    assert_eq!(page.matches("<rect class=\"message\"").count(), 4);
    assert_eq!(page.matches("<rect class=\"nothing\"").count(), 5);
    // 1000 of at most 4096 bytes: 0.12 + 0.88 × 0.2441 = 0.335.
    assert!(
        page.contains("fill-opacity=\"0.335\"><title>0 to 1: 10 messages, 1000 B</title>"),
        "{page}"
    );
    assert!(page.contains("fill-opacity=\"1.000\"><title>1 to 2: 20 messages, 4.0 KiB</title>"));
    assert!(page.contains("the darkest cell: 4.0 KiB"));
    assert!(page.contains(
        "<td class=\"place\">MPI_COMM_WORLD</td><td>3</td><td>30</td><td>5.0 KiB</td><td>8</td><td>96 B</td>"
    ));
    assert!(page.contains("3 messages (99 B) were undone by rollbacks"));
}

#[test]
fn the_timeline_tells_both() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let text = understudy(&["events", dir.path().to_str().unwrap()]);
    assert!(
        text.contains(
            "so far worker 0 has sent 11 messages (1.0 KiB), and called 4 collectives (32 B)\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("and called 3 collectives (24 B); rollbacks have undone 3 messages (99 B)\n")
    );
}
