//! A job of `ckptd launch` in which a system call fails.

use super::supervised_command::{PendingCall, SupervisedCommand};
use ffi_tests::paths;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time after which a job counts as hanging.
///
/// A job waits up to two minutes for a missing guardian.
const LIMIT: Duration = Duration::from_secs(150);
/// Statuses of jobs that a failing call has ended, as docs/reference/exit-statuses.md lists them.
const STATUSES: [i32; 5] = [71, 74, 75, 78, 125];
/// Subcommands of ckptd whose calls fail: launcher, guardian, node manager.
pub const PROCESSES: [&str; 3] = ["launch", "guardian", "manage"];

/// Makes a table of names, numbers and errors of system calls.
macro_rules! calls {
    ($($name:literal $number:ident $error:ident,)*) => {
        &[$(($name, libc::$number, libc::$error)),*]
    };
}

/// System calls that a test can let fail, each with a usual error.
const CALLS: &[(&str, libc::c_long, i32)] = calls! {
    "accept4" SYS_accept4 EMFILE,
    "bind" SYS_bind EACCES,
    "clone" SYS_clone EAGAIN,
    "clone3" SYS_clone3 EAGAIN,
    "connect" SYS_connect ENOMEM,
    "dup2" SYS_dup2 EMFILE,
    "epoll_create1" SYS_epoll_create1 EMFILE,
    "epoll_ctl" SYS_epoll_ctl ENOSPC,
    "eventfd2" SYS_eventfd2 EMFILE,
    "execve" SYS_execve EACCES,
    "flock" SYS_flock ENOLCK,
    "getdents64" SYS_getdents64 ENOMEM,
    "listen" SYS_listen ENOMEM,
    "memfd_create" SYS_memfd_create EMFILE,
    "mkdirat" SYS_mkdirat ENOSPC,
    "pidfd_open" SYS_pidfd_open EMFILE,
    "pipe2" SYS_pipe2 EMFILE,
    "sendmsg" SYS_sendmsg ENOBUFS,
    "socket" SYS_socket EMFILE,
    "socketpair" SYS_socketpair ENFILE,
    "timerfd_create" SYS_timerfd_create ENOMEM,
    "unlinkat" SYS_unlinkat EACCES,
};

/// A system call that fails.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Subcommand of ckptd.
    pub process: &'static str,
    pub call: &'static str,
    pub error: i32,
    /// Number of the call among those of its kind.
    ///
    /// All processes with this subcommand count together.
    pub nth: u32,
    /// True if all later calls fail as well.
    pub is_lasting: bool,
}

impl Failure {
    pub fn once(process: &'static str, call: &'static str, error: i32, nth: u32) -> Failure {
        Failure {
            process,
            call,
            error,
            nth,
            is_lasting: false,
        }
    }
}

/// Program of a job of two workers and a spare.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Does not use MPI: the spare runs the program, too.
    Echo,
    /// Uses MPI.
    World,
}

/// A job that has ended.
pub struct FailingJob {
    program: Program,
    failure: Failure,
    /// Exit status; `None` if the job did not end.
    status: Option<ExitStatus>,
    stdout: String,
    stderr: String,
    /// Files of the job that were left.
    left: Vec<String>,
    /// Number of calls that have failed.
    failed: u32,
    time: Duration,
}

impl FailingJob {
    /// Runs a job in which a call fails.
    pub fn run(program: Program, failure: Failure) -> FailingJob {
        let number = number_of(failure.call);
        let (mut seen, mut failed) = (0, 0);
        let mut job = supervised(program, &[number], |call| {
            seen += u32::from(call.process == failure.process);
            let is_later = failure.is_lasting && seen > failure.nth;
            let fails = call.process == failure.process && (seen == failure.nth || is_later);
            failed += u32::from(fails);
            fails.then_some(failure.error)
        });
        (job.failure, job.failed) = (failure, failed);
        job
    }

    /// Checks the end of the job.
    pub fn check(&self) {
        let Failure {
            process,
            call,
            error,
            ..
        } = self.failure;
        let Some(status) = self.status else {
            panic!("the job hangs\n{self}");
        };
        assert!(self.left.is_empty(), "files are left\n{self}");
        match status.code() {
            Some(0) => assert!(self.program.is_whole(&self.stdout), "no output\n{self}"),
            Some(code) => {
                assert!(STATUSES.contains(&code), "{code} is not documented\n{self}");
                let reason = io::Error::from_raw_os_error(error).to_string();
                assert!(self.failed > 0, "no {call} has failed\n{self}");
                // A failed sendmsg counts as a lost connection, and libpmix, which runs in the
                // manager, reports no reasons. In these two cases, a line with an identifier at its
                // end suffices.
                let has_result = call == "sendmsg" || process == "manage";
                let has_result = has_result && self.stderr.contains("]\n");
                assert!(
                    has_result || self.stderr.contains(&reason),
                    "no message has the reason\n{self}"
                );
            }
            None => panic!("a signal has ended the job\n{self}"),
        }
    }
}

impl std::fmt::Display for FailingJob {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FailingJob {
            failure,
            status,
            stdout,
            stderr,
            left,
            failed,
            time,
            ..
        } = self;
        write!(
            out,
            "{failure:?}: {failed} calls failed, {status:?} after {time:?}, left {left:?}\n\
             {stdout}{stderr}"
        )
    }
}

impl Program {
    fn words(self) -> Vec<String> {
        match self {
            Program::Echo => vec!["/bin/echo".into(), "hello".into()],
            Program::World => vec![
                paths::test_program("world").display().to_string(),
                "apart".into(),
            ],
        }
    }

    /// True if the output of all processes is complete.
    fn is_whole(self, stdout: &str) -> bool {
        match self {
            Program::Echo => stdout == "hello\n".repeat(3),
            Program::World => stdout.lines().count() == 2,
        }
    }
}

/// Runs a job, with these calls under supervision.
fn supervised(
    program: Program,
    calls: &[libc::c_long],
    mut decide: impl FnMut(&PendingCall) -> Option<i32>,
) -> FailingJob {
    let root = tempfile::tempdir_in("/dev/shm").expect("a memory file system");
    let [runtime, stdout, stderr] = ["run", "stdout", "stderr"].map(|name| root.path().join(name));
    std::fs::create_dir(&runtime).expect("a directory");
    let mut command = Command::new(paths::ckptd());
    command.args(["launch", "-n", "2", "--spares", "1", "--"]);
    command.args(program.words());
    command
        .env("UNDERSTUDY_RUNTIME_DIR", &runtime)
        .env("TMPDIR", root.path())
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).expect("a file"))
        .stderr(File::create(&stderr).expect("a file"));
    let began = Instant::now();
    let mut job = SupervisedCommand::start(command, calls, &mut decide);
    let has_ended = job.supervise(LIMIT, &mut decide);
    let time = began.elapsed();
    let status = if has_ended {
        Some(job.child.wait().expect("a child"))
    } else {
        job.child.kill().expect("a child");
        // The guardians end with the launcher, and no further call fails.
        job.supervise(LIMIT, &mut |_| None);
        None
    };
    let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    FailingJob {
        program,
        failure: Failure::once("", "", 0, 0),
        status,
        stdout: text(&stdout),
        stderr: text(&stderr),
        left: files_below(&runtime)
            .into_iter()
            .filter(|name| name.contains('/'))
            .collect(),
        failed: 0,
        time,
    }
}

/// Returns the number of calls of each kind in an undisturbed job.
///
/// Each key consists of a subcommand of ckptd ([`PROCESSES`]) and the name of a call.
pub fn count_calls(program: Program) -> BTreeMap<(&'static str, &'static str), u32> {
    let mut counts = BTreeMap::new();
    let numbers: Vec<_> = CALLS.iter().map(|(_, number, _)| *number).collect();
    supervised(program, &numbers, |call| {
        let name = CALLS.iter().find(|(_, number, _)| *number == call.number);
        let process = PROCESSES.into_iter().find(|name| *name == call.process);
        if let (Some(process), Some((name, ..))) = (process, name) {
            *counts.entry((process, *name)).or_default() += 1;
        }
        None
    });
    counts
}

/// Returns an error with which a call may fail.
pub fn usual_error(call: &str) -> i32 {
    let row = CALLS.iter().find(|(name, ..)| *name == call);
    row.expect("a call of the table").2
}

fn number_of(call: &str) -> libc::c_long {
    let row = CALLS.iter().find(|(name, ..)| *name == call);
    row.expect("a call of the table").1
}

/// Returns the paths of all files and directories below a directory.
fn files_below(directory: &Path) -> Vec<String> {
    fn collect(directory: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            collect(&entry.path(), &format!("{name}/"), found);
            found.push(name);
        }
    }
    let mut found = Vec::new();
    collect(directory, "", &mut found);
    found
}
