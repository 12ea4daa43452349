//! `understudy status` and `understudy advise` on a real job.

use ffi_tests::command::{UnderstudyCommand, understudy};
use ffi_tests::paths;
use std::cell::RefCell;
use std::rc::Rc;

/// Returns the lines about the job of a program, including its ranks.
fn about<'a>(text: &'a str, program: &str) -> Vec<&'a str> {
    let mut lines = text.lines().skip_while(|line| !line.contains(program));
    let head = lines.next();
    head.into_iter()
        .chain(lines.take_while(|line| line.starts_with("  ")))
        .collect()
}

#[test]
fn a_job_is_seen_as_it_gets_on() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let until = paths::test_program("until").to_string_lossy().into_owned();
    let seen: Rc<RefCell<Vec<String>>> = Rc::default();
    let (texts, program) = (Rc::clone(&seen), until.clone());
    let end = work.path().join("end");
    let start = [
        "run",
        "-n",
        "3",
        "--spares",
        "2",
        "--interval",
        "0.1s",
        "--events",
        "events",
    ];
    let rest = [
        "--fault",
        "kill rank=1 at=commit.end epoch=8",
        "--",
        &until,
        "end",
    ];
    let ran = UnderstudyCommand::new(work.path(), &[&start[..], &rest].concat())
        .during(move |_| {
            let text = understudy(&["status"]);
            let job = about(&text, &program);
            if job
                .iter()
                .any(|line| line.contains("1 failure, recovered from"))
            {
                std::fs::write(&end, "").expect("writable");
            }
            if !job.is_empty() {
                texts.borrow_mut().push(job.join("\n"));
                let json = understudy(&["status", "--json"]);
                assert!(
                    !json.contains(&program) || json.contains("\"workers\": 3"),
                    "{json}"
                );
            }
        })
        .run();
    ran.assert(0, &["worker 1 failed"]);
    let seen = seen.borrow();
    let has = |words: &[&str]| {
        seen.iter()
            .any(|text| words.iter().all(|word| text.contains(word)))
    };
    let is_there = has(&[
        "3 workers, 2 spares",
        "no failures",
        "rank 1    worker 1",
        "rank 4    spare 1",
        "waits",
    ]);
    assert!(is_there, "before the failure: {seen:?}");
    assert!(
        has(&[
            "1 failure, recovered from",
            "rank 3    worker 1",
            "protected, 1 spare"
        ]),
        "after the failure: {seen:?}"
    );
    assert!(
        about(&understudy(&["status"]), &until).is_empty(),
        "the job has ended"
    );

    let events = work.path().join("events");
    let advice = understudy(&[
        "advise",
        &events.to_string_lossy(),
        "--mtbf",
        "6h",
        "--json",
    ]);
    for word in [
        "\"mtbf\": 21600.0",
        "\"daly\"",
        "\"expected_without\"",
        "\"recovery\": 0.",
    ] {
        assert!(advice.contains(word), "no {word}: {advice}");
    }
    let text = understudy(&[
        "advise",
        &events.to_string_lossy(),
        "--node-mtbf",
        "5y",
        "--nodes",
        "10",
    ]);
    assert!(
        text.contains("measured in") && text.contains("--interval auto --mtbf"),
        "{text}"
    );
}

#[test]
fn advice_needs_a_cost_and_a_time_between_failures() {
    let work = tempfile::tempdir().expect("there is room for temporary files");
    let run = |arguments: &[&str]| {
        UnderstudyCommand::new(work.path(), &[&["advise"], arguments].concat()).run()
    };
    run(&["--cost", "50s"]).assert(2, &["--mtbf"]);
    run(&["--mtbf", "6h"]).assert(2, &["<DIR>"]);
    run(&["--mtbf", "often", "--cost", "1s"]).assert(2, &["is not a time"]);
    run(&["nowhere", "--mtbf", "6h"]).assert(3, &["nowhere"]);
    // The numbers are those of the unit tests.
    let ran = run(&[
        "--cost", "50s", "--mtbf", "10000s", "--time", "10000s", "--json",
    ]);
    ran.assert(0, &[]);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    for words in [
        "\"young\": 1000.0",
        "\"daly\": 966.944",
        "\"expected_without\": 17182.8",
        "\"count\": 10.0125",
    ] {
        assert!(text.contains(words), "no {words}: {text}");
    }
}

#[test]
fn watching_needs_a_terminal() {
    let ran = UnderstudyCommand::new(&std::env::temp_dir(), &["status", "--watch"]).run();
    ran.assert(3, &["--watch needs a terminal"]);
}
