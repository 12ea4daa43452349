//! State that the kernel keeps for a process, and that understudy cannot restore.
//!
//! No checkpoint is taken as long as a worker has such state. After ten intervals, one line names
//! the state. The job then continues without protection or, with UNDERSTUDY_REQUIRE=1, stops.

use ffi_tests::native_runs::native;
use ffi_tests::{Job, REFUSED, Requirement, paths, skip, variants};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

/// Exit status of a job whose state cannot be restored.
const CANNOT_BE_RESTORED: i32 = 74;

/// Descriptors: argument of the program, and words of the line about the descriptor.
const DESCRIPTORS: [(&str, &str); 25] = [
    ("io_uring", "anon_inode:[io_uring]"),
    ("inotify", "anon_inode:inotify"),
    ("pidfd", "[pidfd]"),
    ("queue", "mq_unlink"),
    ("queue_twice", "it is open twice"),
    ("terminal", "/dev/"),
    ("listener", "socket:["),
    ("connection", "socket:["),
    ("datagrams", "socket:["),
    ("child", "pipe:["),
    ("fifo", "fifo (deleted)"),
    ("packets", "O_DIRECT"),
    ("fanotify", "anon_inode:[fanotify]"),
    ("userfaultfd", "anon_inode:[userfaultfd]"),
    ("queue_notify", "mq_notify"),
    ("namespace", "uts:["),
    ("process", "/proc/1/stat"),
    ("directory", "removed (deleted)"),
    ("perf", "anon_inode:[perf_event]"),
    ("bpf", "anon_inode:bpf-map"),
    ("secret", "/secretmem"),
    ("ruleset", "anon_inode:[landlock-ruleset]"),
    ("routes", "socket:["),
    ("path", "socket:["),
    ("tunnel", "/dev/net/tun"),
];

/// Other state: argument of the program, and words of the line about the state.
const STATE: [(&str, &str); 11] = [
    ("aio", "it has requests under way"),
    ("semaphores", "semaphores of System V"),
    ("messages", "a message queue of System V"),
    ("limit", "a limit of 256 (RLIMIT_NOFILE)"),
    ("policy", "a NUMA policy for /dev/zero (deleted)"),
    ("group", "another value of Gid"),
    ("aio_raw", "its requests cannot be counted"),
    ("opened", "semaphores of System V"),
    ("thread", "made by clone(2)"),
    ("hostname", "another /proc/self/ns/uts"),
    ("working", "a working directory without a name"),
];

/// Makes a job whose worker 1 has state of this kind until the round `last`.
///
/// Without `last`, worker 1 has the state until the last round.
fn job(kind: &str, last: Option<u32>) -> Job {
    let last = last.map(|last| last.to_string());
    let mut arguments = vec!["45", "0", kind];
    arguments.extend(last.as_deref());
    Job::new(paths::test_program("kernel_state"), &arguments)
        .workers(2)
        .interval("5calls")
}

/// Kinds of state that only root can make.
const PRIVILEGED: [&str; 5] = ["fanotify", "group", "hostname", "bpf", "tunnel"];

/// Kinds of state that a kernel or a container may lack.
const OPTIONAL: [&str; 5] = ["perf", "bpf", "secret", "ruleset", "tunnel"];

fn can_be_made(kind: &str) -> bool {
    let has_right = rustix::process::geteuid().is_root() || !PRIVILEGED.contains(&kind);
    let exists = || {
        let output = native(job(kind, None));
        !String::from_utf8_lossy(&output.stdout).contains("FAILED")
    };
    has_right && (!OPTIONAL.contains(&kind) || exists())
}

fn assert_refused(kind: &str, word: &str) {
    if !can_be_made(kind) {
        return skip(
            Requirement::Namespaces,
            &format!("{kind} needs root, or a kernel that has it"),
        );
    }
    let unprotected = job(kind, None).run();
    unprotected.assert_success();
    unprotected.assert_single_line(&[word, "of worker 1", "10 intervals", "unprotected"]);
    unprotected.assert_same_lines(&native(job(kind, None)));
    unprotected.assert_nothing_left();
}

#[test]
fn descriptors_that_cannot_be_restored_are_refused() {
    for (kind, word) in variants(DESCRIPTORS, 8) {
        assert_refused(kind, word);
    }
}

#[test]
fn state_that_cannot_be_restored_is_refused() {
    for (kind, word) in variants(STATE, 4) {
        assert_refused(kind, word);
    }
}

/// A worker fails after worker 1 has made the state: the job recovers.
///
/// Worker 1, if it survives and cannot be rolled back in place, exits and is replaced.
#[test]
fn state_that_is_made_after_the_checkpoint_is_undone() {
    let kinds = [
        "group",
        "thread",
        "semaphores",
        "io_uring",
        "limit",
        "policy",
        "aio",
        "aio_raw",
        "queue",
        "queue_twice",
    ];
    for kind in variants(kinds, 3).filter(|kind| can_be_made(kind)) {
        let protected = || job(kind, Some(9));
        for worker in variants([0, 1], 1) {
            let fault = format!("kill rank={worker} at=call:18");
            let outcome = protected().spares(1).fault(&fault).run();
            outcome.assert_success();
            outcome.assert_same_lines(&native(protected()));
            outcome.assert_nothing_left();
        }
    }
}

/// The replacement is in another IPC namespace than the failed worker, as on another host.
#[test]
fn system_v_objects_are_restored_on_another_host() {
    let may_unshare = Command::new("unshare").args(["--ipc", "true"]).status();
    if !may_unshare.is_ok_and(|status| status.success()) {
        return skip(
            Requirement::Namespaces,
            "namespaces of System V objects need root",
        );
    }
    let programs = [
        "table/system_v",
        "table/waits_in_kernel",
        "table/posix_queues",
    ];
    for program in variants(programs, 1) {
        let path = paths::test_program(program).display().to_string();
        let job = || Job::new("unshare", &["--ipc", &path, "16"]).workers(3);
        for call in variants([23, 31], 1) {
            let fault = format!("kill rank=1 at=call:{call}");
            let outcome = job().interval("5calls").spares(1).fault(&fault).run();
            outcome.assert_all_recovered(&native(job()), &[1]);
        }
    }
}

#[test]
fn a_closed_object_prevents_no_checkpoint() {
    for kind in ["inotify", "connection"] {
        let protected = || job(kind, Some(9));
        for call in variants([80, 15], 1) {
            let fault = format!("kill rank=1 at=call:{call}");
            let outcome = protected().spares(1).fault(&fault).run();
            outcome.assert_all_recovered(&native(protected()), &[1]);
        }
    }
}

/// Takes a port as soon as the process that listens on it has exited.
fn take_port(port: u16) -> TcpListener {
    let bind = || TcpListener::bind(("127.0.0.1", port));
    while bind().is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    loop {
        if let Ok(taken) = bind() {
            return taken;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Another process takes the port of a failed worker: the job ends with one line.
#[test]
fn a_port_that_another_process_takes_ends_the_job() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let port = free.expect("a free port").port();
    let taking = std::thread::spawn(move || take_port(port));
    let program = paths::test_program("fixed_port");
    let outcome = Job::new(program, &["40", "10", &port.to_string()])
        .workers(2)
        .interval("5calls")
        .spares(1)
        .fault("kill rank=1 at=call:40")
        .run();
    outcome.assert_single_line(&["its socket at 127.0.0.1:", "in use", "the job ends"]);
    outcome.assert_status(CANNOT_BE_RESTORED);
    outcome.assert_nothing_left();
    assert!(taking.is_finished(), "the port was not taken");
}

#[test]
fn a_job_that_must_be_protected_stops() {
    let outcome = job("inotify", None).env("UNDERSTUDY_REQUIRE", "1").run();
    outcome.assert_single_line(&["anon_inode:inotify", "the job stops"]);
    outcome.assert_status(REFUSED);
    outcome.assert_nothing_left();
}
