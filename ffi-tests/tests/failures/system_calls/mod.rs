//! Jobs in whose launcher, guardians or manager a system call fails.
//!
//! Each such job ends with its whole output, or with a message and a documented status, and leaves
//! no process and no file.

mod failing_job;
mod supervised_command;

use failing_job::{FailingJob, Failure, Program};
use ffi_tests::{Requirement, skip};
use std::thread;
use supervised_command::can_supervise;

/// Number of concurrent jobs, which mostly wait.
const AT_ONCE: usize = 4;

/// Runs a job for each failure, and checks how it ends.
fn check(program: Program, failures: &[Failure]) {
    if !can_supervise() {
        return skip(
            Requirement::Machine,
            "seccomp(2) supervises no system calls here",
        );
    }
    for group in failures.chunks(AT_ONCE) {
        thread::scope(|scope| {
            for &failure in group {
                scope.spawn(move || FailingJob::run(program, failure).check());
            }
        });
    }
}

/// A call, its error, and the numbers of the calls that fail.
type Row = (&'static str, i32, &'static [u32]);

/// Returns the failures of the calls of one process.
fn failures(process: &'static str, table: &[Row]) -> Vec<Failure> {
    let of_row = |&(call, error, places): &Row| {
        places
            .iter()
            .map(move |&nth| Failure::once(process, call, error, nth))
    };
    table.iter().flat_map(of_row).collect()
}

#[test]
fn a_failing_call_of_the_launcher() {
    let table: &[Row] = &[
        ("clone", libc::EAGAIN, &[1, 3]),
        ("clone3", libc::EAGAIN, &[1]),
        ("dup2", libc::EMFILE, &[1, 4]),
        ("execve", libc::EACCES, &[1, 2]),
        ("flock", libc::ENOLCK, &[1]),
        ("getdents64", libc::ENOMEM, &[1]),
        ("mkdirat", libc::ENOSPC, &[1, 2]),
        ("pidfd_open", libc::EMFILE, &[1, 2]),
        ("socketpair", libc::EMFILE, &[1, 2]),
    ];
    check(Program::Echo, &failures("launch", table));
}

#[test]
fn a_failing_call_of_a_guardian() {
    let table: &[Row] = &[
        ("bind", libc::EACCES, &[1, 2, 3]),
        ("clone", libc::EAGAIN, &[1, 2]),
        ("clone3", libc::EAGAIN, &[1, 2, 4, 7]),
        ("connect", libc::ENOMEM, &[1, 2, 3, 4]),
        ("epoll_create1", libc::EMFILE, &[1, 2]),
        ("epoll_ctl", libc::ENOSPC, &[1, 2, 3, 5, 8]),
        ("flock", libc::ENOLCK, &[1, 2]),
        ("listen", libc::ENOMEM, &[1, 2]),
        ("pidfd_open", libc::EMFILE, &[1]),
        ("pipe2", libc::EMFILE, &[1, 3]),
        ("sendmsg", libc::ENOBUFS, &[1, 2, 4]),
        ("socket", libc::EMFILE, &[1, 2, 4]),
        ("socketpair", libc::ENFILE, &[1, 3]),
        ("timerfd_create", libc::ENOMEM, &[1]),
    ];
    check(Program::Echo, &failures("guardian", table));
}

#[test]
fn a_failing_call_of_the_manager() {
    let table: &[Row] = &[
        ("accept4", libc::EMFILE, &[1, 2]),
        ("epoll_create1", libc::EMFILE, &[1]),
        ("epoll_ctl", libc::ENOSPC, &[1, 2, 3, 4]),
        ("eventfd2", libc::EMFILE, &[1]),
        ("sendmsg", libc::ENOBUFS, &[1, 4]),
        ("sendmsg", libc::EPERM, &[1, 2, 3, 4, 6]),
        ("unlinkat", libc::EACCES, &[1]),
    ];
    check(Program::Echo, &failures("manage", table));
}

#[test]
fn a_failing_call_of_the_manager_of_an_mpi_program() {
    let table: &[Row] = &[
        ("clone3", libc::EAGAIN, &[1, 2]),
        ("sendmsg", libc::EPERM, &[5, 8]),
        ("socket", libc::EMFILE, &[1]),
    ];
    check(Program::World, &failures("manage", table));
}

/// Each of the first 12 calls of a kind fails, alone and with later calls.
#[test]
#[ignore = "a variant: make test-all"]
fn any_call_may_fail() {
    if !can_supervise() {
        return skip(
            Requirement::Machine,
            "seccomp(2) supervises no system calls here",
        );
    }
    let mut all = Vec::new();
    for ((process, call), count) in failing_job::count_calls(Program::Echo) {
        let error = failing_job::usual_error(call);
        for nth in 1..=count.min(12) {
            all.push(Failure::once(process, call, error, nth));
            all.push(Failure {
                is_lasting: true,
                ..Failure::once(process, call, error, nth)
            });
        }
    }
    check(Program::Echo, &all);
}
