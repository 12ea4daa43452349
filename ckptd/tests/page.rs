//! `understudy report` on event files made for the test.

use std::path::Path;
use std::process::{Command, Output};
use understudy_formats::events::{Epoch, EventWriter, Kind, ProcessNumber, Role, Worker};

fn report(dir: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    command.arg("report").arg(dir).args(more).output().unwrap()
}

fn job(dir: &Path, program: &str) {
    let writer = EventWriter::create(dir, ProcessNumber(0));
    let start = Kind::Start {
        pid: 1,
        world_rank: ProcessNumber(0),
        role: Role::Worker(Worker(0)),
        workers: 1,
        spares: 0,
        host: "node & co".into(),
        program: program.into(),
        command: vec!["solver".into(), "input.txt".into()],
        version: "0.1.0".into(),
        job: "job".into(),
    };
    writer.emit(Epoch(0), start);
    let reason = "no <buddy>".to_owned();
    writer.emit(Epoch(0), Kind::Refused { reason });
}

#[test]
fn names_are_escaped_as_text() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path(), "<script>alert(1)</script>");
    let output = report(dir.path(), &[]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        !page.contains("<script") && page.contains("&lt;script&gt;alert(1)"),
        "{page}"
    );
    assert!(page.contains("node &amp; co") && page.contains("Refused: no &lt;buddy&gt;"));
    assert!(page.contains("No checkpoint was taken") && page.contains("No replicas were sent"));
}

#[test]
fn damage_is_reported_on_the_page_and_by_the_status() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path(), "solver");
    let file = dir.path().join("rank-0.events");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let page = dir.path().join("page.html");
    let output = report(dir.path(), &["-o", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("rank-0.events")
    );
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .contains("Not complete: rank-0.events")
    );
    let output = report(dir.path(), &["-o", "/proc/page.html"]);
    assert_eq!(output.status.code(), Some(3));
}
