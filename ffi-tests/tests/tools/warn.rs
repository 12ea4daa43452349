//! `understudy warn`, and the reaction of a job.

use ffi_tests::command::{UnderstudyCommand, understudy};
use ffi_tests::paths;
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn a_checkpoint_is_taken_on_request() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let until = paths::test_program("until").to_string_lossy().into_owned();
    let program = until.clone();
    let (end, is_requested) = (work.path().join("end"), Rc::new(Cell::new(false)));
    let was_requested = Rc::clone(&is_requested);
    let start = [
        "run",
        "-n",
        "2",
        "--spares",
        "0",
        "--interval",
        "1h",
        "--events",
        "events",
    ];
    let ran = UnderstudyCommand::new(work.path(), &[&start[..], &["--", &until, "end"]].concat())
        .during(move |_| {
            let text = understudy(&["status"]);
            let Some(line) = text.lines().find(|line| line.contains(&program)) else {
                return;
            };
            let (job, state) = line.split_once(": ").expect("a job and its state");
            if state.contains("checkpoint 1 ") && !was_requested.replace(true) {
                assert_eq!(
                    understudy(&["warn", "--checkpoint", job]),
                    format!("{job} is notified\n")
                );
            } else if state.contains("checkpoint 2 ") {
                std::fs::write(&end, "").expect("writable");
            }
        })
        .run();
    // Without the request, the job has one checkpoint only, and exceeds its time limit.
    ran.assert(0, &["last checkpoint: 2"]);
    assert!(is_requested.get());
}

#[test]
fn a_job_that_does_not_run_cannot_be_warned() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let run = |arguments: &[&str]| UnderstudyCommand::new(work.path(), arguments).run();
    run(&["warn", "--mtbf", "1h", "no-such-job"])
        .assert(3, &["no job `no-such-job`", "understudy status"]);
    run(&["warn", "--mtbf", "often", "no-such-job"]).assert(2, &["is not a time"]);
    run(&["warn", "no-such-job"]).assert(2, &["--mtbf"]);
}
