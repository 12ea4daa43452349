//! Output of `understudy inspect` for checkpoint files that the test writes.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use understudy_formats::epochs::epoch_files::{EpochFileName, EpochKey};
use understudy_formats::epochs::epoch_format::{Encoder, EpochHead, JobIdentity};
use understudy_formats::pages::{PAGE_SIZE, PageIndex, PageRun};
use understudy_numbers::{Epoch, Worker};

const WORKERS: u32 = 3;

/// Writes a worker's file, with pages from this number on, each filled with one byte.
fn write(dir: &Path, worker: u32, start: u64, pages: &[u8]) {
    let key = EpochKey {
        lineage: 7,
        term: 1,
        generation: 0,
        epoch: Epoch(5),
    };
    let worker = Worker(worker);
    let head = EpochHead {
        key,
        worker,
        identity: JobIdentity {
            build: 3,
            mpi: "Open MPI v5".into(),
            workers: WORKERS,
            program: "/bin/solver".into(),
            arguments: vec![b"-n".to_vec()],
            layout: vec![],
        },
        environment: 0,
        state: 5,
        runs: vec![PageRun {
            start: PageIndex(start),
            pages: pages.len() as u64,
        }],
    };
    let mut encoder = Encoder::new(Vec::new(), &head, b"state").unwrap();
    for byte in pages {
        encoder.write_page(&[*byte; PAGE_SIZE]).unwrap();
    }
    let path = dir.join(EpochFileName { key, worker }.to_string());
    std::fs::write(path, encoder.finish().unwrap()).unwrap();
}

fn inspect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_understudy"))
        .arg("inspect")
        .args(arguments)
        .output()
        .unwrap()
}

fn json_of(dir: &Path) -> Value {
    let output = inspect(&["--json", dir.to_str().unwrap()]);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `inspect` counts the pages whose content another worker has, at the same place or elsewhere.
///
/// All workers have a table, two of them at the same place; two workers have a page at different
/// places, and each has its own data. The pages of a worker fill more than one section of its file.
#[test]
fn pages_that_other_workers_have_are_counted_by_content() {
    let dir = tempfile::tempdir().unwrap();
    let table: Vec<u8> = (0..300).map(|index| (index % 200) as u8 + 1).collect();
    write(
        dir.path(),
        0,
        100,
        &[&table[..], &[0, 0, 201, 201]].concat(),
    );
    write(
        dir.path(),
        1,
        100,
        &[&table[..], &[202, 203, 0, 0]].concat(),
    );
    write(dir.path(), 2, 500, &[&[203], &table[..], &[204]].concat());
    let found = json_of(dir.path());
    let sharing = &found["epochs"][0]["sharing"];
    let shares = |pages: u64, zeros: u64, elsewhere: u64, same_place: u64| json!({ "pages": pages, "zeros": zeros, "elsewhere": elsewhere, "same_place": same_place });
    let of_worker = |worker: u32, mut shares: Value| {
        shares["worker"] = json!(worker);
        shares
    };
    assert_eq!(
        *sharing,
        json!({
            "workers": [
                of_worker(0, shares(304, 2, 300, 300)),
                of_worker(1, shares(304, 2, 301, 300)),
                of_worker(2, shares(302, 0, 301, 0)),
            ],
            "total": shares(910, 4, 902, 600),
            // 1 to 200 of the table, 201 to 204 of the workers.
            "distinct": 204,
        })
    );
    let text = String::from_utf8(inspect(&[dir.path().to_str().unwrap()]).stdout).unwrap();
    let row = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(name) && line.contains('%'));
        line.unwrap()
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row("worker 1")[2..], ["304", "2", "301", "99.7%", "300"]);
    assert_eq!(row("all")[1..], ["910", "4", "902", "99.6%", "600"]);
    assert!(
        text.contains("If each content were stored once: 816.0 KiB instead of 3.5 MiB"),
        "{text}"
    );
}

#[test]
fn damaged_files_are_not_compared() {
    let dir = tempfile::tempdir().unwrap();
    for worker in 0..WORKERS {
        write(dir.path(), worker, 100, &[1, 2, 3]);
    }
    for (damaged, left) in [(1, 2), (0, 0)] {
        let name = EpochFileName {
            key: EpochKey {
                lineage: 7,
                term: 1,
                generation: 0,
                epoch: Epoch(5),
            },
            worker: Worker(damaged),
        };
        let path = dir.path().join(name.to_string());
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.len() - 100;
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let output = inspect(&[dir.path().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let sharing = &json_of(dir.path())["epochs"][0]["sharing"];
        assert_eq!(sharing["workers"].as_array().map_or(0, Vec::len), left);
    }
}
