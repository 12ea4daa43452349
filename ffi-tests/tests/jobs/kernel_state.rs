//! State that the kernel keeps for a process, and that understudy cannot restore.
//!
//! A checkpoint is not taken as long as a worker has such an object. After ten intervals one line
//! names the object, and the job goes on without protection or stops.

use ffi_tests::shared::native;
use ffi_tests::{Job, REFUSED, place};

/// Descriptors, by what the program makes, and what the line names.
const DESCRIPTORS: [(&str, &str); 15] = [
    ("io_uring", "anon_inode:[io_uring]"),
    ("inotify", "anon_inode:inotify"),
    ("fanotify", "anon_inode:[fanotify]"),
    ("pidfd", "[pidfd]"),
    ("userfaultfd", "anon_inode:[userfaultfd]"),
    ("queue", "/kernel_state."),
    ("namespace", "uts:["),
    ("terminal", "/dev/"),
    ("listener", "socket:["),
    ("connection", "socket:["),
    ("process", "/proc/1/stat"),
    ("directory", "removed (deleted)"),
    ("fifo", "fifo (deleted)"),
    ("child", "pipe:["),
    ("packets", "O_DIRECT"),
];

fn job(kind: &str, last: Option<u32>) -> Job {
    let last = last.map(|last| last.to_string());
    let mut arguments = vec!["45", "0", kind];
    arguments.extend(last.as_deref());
    Job::new(place::test_program("kernel_state"), &arguments)
        .workers(2)
        .interval("5calls")
}

fn assert_refused(kind: &str, word: &str) {
    let unprotected = job(kind, None).run();
    unprotected.assert_success();
    unprotected.assert_told(&[word, "of rank 1", "10 intervals", "unprotected"]);
    unprotected.assert_same_lines(&native(job(kind, None)));
    unprotected.assert_nothing_left();
}

#[test]
fn descriptors_that_cannot_be_restored_are_refused() {
    for (kind, word) in DESCRIPTORS {
        assert_refused(kind, word);
    }
}

#[test]
fn a_closed_object_prevents_no_checkpoint() {
    for kind in ["inotify", "connection"] {
        let protected = || job(kind, Some(9));
        for call in [15, 80] {
            let fault = format!("kill rank=1 at=call:{call}");
            let outcome = protected().spares(1).fault(&fault).run();
            outcome.assert_success();
            outcome.assert_taken_over(&[1]);
            outcome.assert_same_lines(&native(protected()));
            outcome.assert_nothing_left();
        }
    }
}

#[test]
fn a_job_that_must_be_protected_stops() {
    let outcome = job("inotify", None).env("UNDERSTUDY_REQUIRE", "1").run();
    outcome.assert_told(&["anon_inode:inotify", "the job stops"]);
    outcome.check(
        outcome.status.and_then(|status| status.code()) == Some(REFUSED),
        "the status is not that of a refusal",
    );
    outcome.assert_nothing_left();
}
