//! `understudy events` as a user runs it.

use std::path::Path;
use std::process::{Command, Output};
use understudy_formats::events::{
    EndReason, Epoch, ErrorClass, EventWriter, Kind, ProcessNumber, RecoveryStage, Role, Spare,
    Worker, monotonic_ns,
};
use understudy_report::{Live, RunRecord};

const MS: u64 = 1_000_000;

fn understudy(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_understudy"))
        .args(arguments)
        .output()
        .unwrap()
}

fn events(dir: &Path, more: &[&str]) -> (i32, String, String) {
    let output = understudy(&[&["events", dir.to_str().unwrap()], more].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn start(rank: u32, role: Role, job: &str) -> Kind {
    Kind::Start {
        pid: 100 + rank,
        world_rank: ProcessNumber(rank),
        role,
        workers: 2,
        spares: 1,
        host: "node-a".into(),
        program: "heat".into(),
        command: vec!["solver".into(), "input.txt".into()],
        version: "0.1.0".into(),
        job: job.into(),
    }
}

/// Writes files of two workers and a spare.
///
/// Worker 1 fails at 50 ms; the spare resumes from checkpoint 4.
fn job(dir: &Path) {
    let writers = [0, 1, 2].map(|rank| EventWriter::create(dir, ProcessNumber(rank)));
    let origin = monotonic_ns();
    let emit = |rank: usize, ms: u64, kind| writers[rank].emit_at(origin + ms * MS, Epoch(4), kind);
    let (epoch, recovery) = (Epoch(4), 1);
    for rank in 0..2 {
        emit(
            rank,
            0,
            start(rank as u32, Role::Worker(Worker(rank as u32)), "job"),
        );
        emit(
            rank,
            10,
            Kind::Cut {
                epoch,
                at_call: 7,
                candidates: 9,
            },
        );
        let bytes = 4096 * (1 + rank as u64);
        emit(
            rank,
            11,
            Kind::Capture {
                epoch,
                pages: 1,
                bytes,
                scan_ns: 10,
                copy_ns: 20,
            },
        );
        emit(
            rank,
            12,
            Kind::Ship {
                epoch,
                to: ProcessNumber(1 - rank as u32),
                bytes: 3072,
                alike: 2,
                ns: 1500,
            },
        );
        emit(rank, 13, Kind::Commit { epoch, ns: 3 * MS });
    }
    emit(1, 50, Kind::Kill { signal: 9 });
    emit(2, 0, start(2, Role::Spare(Spare(0)), "job"));
    emit(
        0,
        60,
        Kind::FailureDetected {
            recovery,
            failed: vec![ProcessNumber(1)],
            by: ErrorClass::Abandoned,
        },
    );
    let death = |cause: &str| Kind::Death {
        recovery,
        rank: ProcessNumber(1),
        worker: Worker(1),
        cause: cause.into(),
    };
    emit(0, 60, death("unknown"));
    emit(2, 60, death("SIGKILL"));
    emit(
        2,
        61,
        Kind::FailureDetected {
            recovery,
            failed: vec![],
            by: ErrorClass::Abandoned,
        },
    );
    emit(
        0,
        62,
        Kind::Stage {
            recovery,
            stage: RecoveryStage::Initialise,
            ns: 2 * MS,
        },
    );
    emit(
        2,
        63,
        Kind::Stage {
            recovery,
            stage: RecoveryStage::Initialise,
            ns: 3 * MS,
        },
    );
    emit(
        2,
        64,
        Kind::Takeover {
            recovery,
            from: Spare(0),
            as_worker: Worker(1),
        },
    );
    emit(
        0,
        65,
        Kind::Resume {
            recovery,
            epoch,
            total_ns: 5 * MS,
        },
    );
    emit(
        2,
        66,
        Kind::Resume {
            recovery,
            epoch,
            total_ns: 5 * MS,
        },
    );
    for rank in [0, 2] {
        emit(
            rank,
            90,
            Kind::End {
                how: EndReason::Finalized,
            },
        );
    }
}

fn shorten(path: &Path, by: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - by).unwrap();
}

#[test]
fn text_describes_every_event() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let (code, out, err) = events(dir.path(), &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "rank 2   worker 1   checkpoint 4     recovery 1: takes over as worker 1",
        "failed       rank 1 (worker 1), SIGKILL, killed at 0.05",
        "first by rank 0: an abandoned call",
        "taken over   worker 1 by rank 2 (spare 0)",
        "resumed      from checkpoint 4",
        "failure to resume       5.00 ms",
        "kill to resume         16.00 ms",
        "initialise            3.00 ms   rank 2, of 2 ranks",
        "Checkpoints: 1 cut, 1 committed, last committed 4",
        "captured       mean    6.0 KiB   max    8.0 KiB (rank 1)   total   12.0 KiB in 2",
    ] {
        assert!(out.contains(part), "no {part:?} in\n{out}");
    }
}

#[test]
fn json_has_the_numbers() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let (code, out, _) = events(dir.path(), &["--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let recovery = &report["recoveries"][0];
    assert_eq!(code, 0);
    assert_eq!(recovery["failed"][0]["rank"], 1);
    assert_eq!(recovery["failure_to_resume_ns"], 5 * MS);
    assert_eq!(recovery["kill_to_resume_ns"], 16 * MS);
    assert_eq!(recovery["takeovers"][0]["as_worker"], 1);
    assert_eq!(recovery["stages"][0]["slowest"], 2);
    assert_eq!(report["checkpoints"]["capture_bytes"]["total"], 12288);
    assert_eq!(report["timeline"][0]["event"]["type"], "start");
    assert_eq!(recovery["failed"][0]["cause"], "SIGKILL");
    assert_eq!(report["outcome"]["ended"]["how"], "finished");
    assert_eq!(
        (
            &report["outcome"]["failures"],
            &report["outcome"]["spares_left"]
        ),
        (&1.into(), &0.into())
    );
    assert_eq!(report["timeline"].as_array().unwrap().len(), 23);
}

#[test]
fn a_torn_file_is_a_note() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    shorten(&dir.path().join("rank-1.events"), 1);
    let (code, out, _) = events(dir.path(), &[]);
    assert_eq!(code, 0);
    assert!(
        out.contains("note: rank-1.events: truncated at byte"),
        "{out}"
    );
    assert!(
        out.contains("last sign of life 47.00 ms before the detection"),
        "{out}"
    );
    std::fs::write(dir.path().join("rank-3.events"), b"").unwrap();
    assert_eq!(events(dir.path(), &[]).0, 0);
}

/// A failure ends the job: the outcome names the reason, and the failure is counted.
///
/// No recovery reports this failure.
#[test]
fn a_lost_job_has_an_outcome_and_all_its_failures() {
    let dir = tempfile::tempdir().unwrap();
    let writers = [0, 1, 2].map(|rank| EventWriter::create(dir.path(), ProcessNumber(rank)));
    for rank in 0..2 {
        writers[rank as usize].emit(Epoch(0), start(rank, Role::Worker(Worker(rank)), "job"));
    }
    writers[2].emit(Epoch(0), start(2, Role::Spare(Spare(0)), "job"));
    let (recovery, rank, status) = (1, ProcessNumber(1), 75);
    let (worker, cause, reason) = (Worker(1), "SIGKILL".into(), "no spare is left".into());
    writers[0].emit(
        Epoch(2),
        Kind::Death {
            recovery,
            rank,
            worker,
            cause,
        },
    );
    writers[0].emit(Epoch(2), Kind::Lost { reason, status });
    writers[0].emit(
        Epoch(2),
        Kind::End {
            how: EndReason::Aborted(75),
        },
    );
    let (code, out, _) = events(dir.path(), &["--summary"]);
    assert!(
        code == 0 && out.contains("Outcome: status 75: no spare is left"),
        "{out}"
    );
    assert!(out.contains("1 process failed, 1 spare left"), "{out}");
    assert!(
        out.contains("Recoveries: 0, and 1 that did not complete"),
        "{out}"
    );
    assert!(out.contains("rank 1 (worker 1), SIGKILL"), "{out}");
}

/// Excludes an idle spare whose death no process has recorded.
#[test]
fn a_finished_job_counts_the_released_spares() {
    let dir = tempfile::tempdir().unwrap();
    let roles = [0, 1].map(|n| Role::Worker(Worker(n)));
    let roles = roles
        .into_iter()
        .chain([0, 1].map(|n| Role::Spare(Spare(n))));
    let ends = [
        EndReason::Finalized,
        EndReason::Finalized,
        EndReason::Released,
    ];
    let (epoch, ns) = (Epoch(1), MS);
    for (rank, role) in (0..).zip(roles) {
        let writer = EventWriter::create(dir.path(), ProcessNumber(rank));
        writer.emit(Epoch(0), start(rank, role, "job"));
        if rank == 0 {
            writer.emit(epoch, Kind::Commit { epoch, ns });
        }
        if let Some(&how) = ends.get(rank as usize) {
            writer.emit(epoch, Kind::End { how });
        }
    }
    let (_, out, _) = events(dir.path(), &["--summary"]);
    assert!(out.contains("0 processes failed, 1 spare left"), "{out}");
    let mut live = Live::new(dir.path());
    let line = live.poll().unwrap().expect("a job").to_last_line(0);
    assert!(line.contains("ended well, 1 spare left"), "{line}");
}

/// All workers are killed at once: `run.json` gives the outcome.
///
/// No event file has the cause. After the end of a job by a signal, the outcome names the signal,
/// and no process counts as failed.
#[test]
fn a_job_with_only_failed_workers_is_reported_as_lost() {
    let dir = tempfile::tempdir().unwrap();
    let writers = [0, 1, 2].map(|rank| EventWriter::create(dir.path(), ProcessNumber(rank)));
    for rank in 0..2 {
        writers[rank as usize].emit(Epoch(0), start(rank, Role::Worker(Worker(rank)), "job"));
    }
    writers[2].emit(Epoch(0), start(2, Role::Spare(Spare(0)), "job"));
    let mut run = RunRecord {
        command: vec!["understudy".into()],
        host: "node".into(),
        started_ns: 0,
        ended_ns: Some(u64::MAX),
        status: Some(75),
        signal: None,
    };
    run.write(dir.path()).unwrap();
    let (_, out, _) = events(dir.path(), &["--summary"]);
    assert!(
        out.contains("Outcome: status 75: ranks 0, 1 failed"),
        "{out}"
    );
    assert!(out.contains("2 processes failed, 1 spare left"), "{out}");
    run.signal = Some(15);
    run.write(dir.path()).unwrap();
    let (_, out, _) = events(dir.path(), &["--summary"]);
    assert!(out.contains("0 processes failed"), "{out}");
    let ended = "the job was ended by SIGTERM (status 75)";
    assert!(out.contains(ended) && !out.contains("still runs"), "{out}");
    let path = dir.path().to_str().unwrap();
    let page = understudy(&["report", path]).stdout;
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("The job was ended by SIGTERM (status 75)."));
    assert!(!page.contains("still runs"));
}

/// A replacement that was not among the first spares is called a new process.
#[test]
fn a_process_that_was_started_anew_is_no_spare() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let writer = EventWriter::create(dir.path(), ProcessNumber(4));
    let (recovery, from, as_worker) = (2, Spare(2), Worker(0));
    writer.emit(
        Epoch(4),
        Kind::Takeover {
            recovery,
            from,
            as_worker,
        },
    );
    let (_, out, _) = events(dir.path(), &[]);
    assert!(out.contains("worker 1 by rank 2 (spare 0)"), "{out}");
    assert!(out.contains("worker 0 by rank 4, a new process"), "{out}");
}

/// Damaged data are not counted, and the exit status reports the damage.
#[test]
fn advice_from_damaged_files_is_not_called_well() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let advise = || {
        let path = dir.path().to_str().unwrap();
        understudy(&["advise", path, "--mtbf", "1h"])
    };
    assert_eq!(advise().status.code(), Some(0));
    std::fs::write(dir.path().join("rank-1.events"), b"garbage").unwrap();
    let output = advise();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("rank-1.events: is not an event file"),
        "{message}"
    );
}

#[test]
fn missing_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    std::fs::remove_file(dir.path().join("rank-2.events")).unwrap();
    let (code, out, _) = events(dir.path(), &["--summary"]);
    assert!(
        code == 1 && out.contains("PROBLEM: rank-2.events: missing, of the files of 3 processes"),
        "{out}"
    );
}

#[test]
fn damage_and_foreign_files_leave_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    job(dir.path());
    let path = dir.path().join("rank-0.events");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 200;
    std::fs::write(&path, &bytes).unwrap();
    let (code, out, err) = events(dir.path(), &["--json"]);
    assert_eq!(code, 1);
    assert!(
        out.contains("\"recoveries\"")
            && err.contains("rank-0.events: foreign version: it has format version 200")
    );
    EventWriter::create(dir.path(), ProcessNumber(9))
        .emit(Epoch(0), start(9, Role::Worker(Worker(9)), "other"));
    let (code, out, _) = events(dir.path(), &[]);
    assert!(
        code == 1 && out.contains("PROBLEM: the files are of different jobs (job, other)"),
        "{out}"
    );
}

#[test]
fn a_missing_report_names_reason_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = events(&dir.path().join("none"), &[]);
    assert!(
        code == 3
            && out.is_empty()
            && err.contains("No such file")
            && err.contains("Give the directory"),
        "{err}"
    );
    let (code, _, err) = events(dir.path(), &[]);
    assert!(code == 3 && err.contains("no event files"), "{err}");
    std::fs::write(dir.path().join("rank-0.events"), b"something else").unwrap();
    let (code, _, err) = events(dir.path(), &[]);
    assert!(
        code == 3 && err.contains("rank-0.events: is not an event file"),
        "{err}"
    );
    assert_eq!(understudy(&["events"]).status.code(), Some(2));
    assert_eq!(understudy(&[]).status.code(), Some(2));
    let version = understudy(&["--version"]);
    assert!(version.status.success() && version.stdout.starts_with(b"understudy 0."));
}
