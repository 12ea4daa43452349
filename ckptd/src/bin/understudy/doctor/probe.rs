//! A short run of the user's program, to estimate its memory under protection.

use super::checks::available_memory;
use super::{Arguments, Check, mpi_version};
use crate::outcome::Failure;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use understudy_formats::events::{Epoch, Kind, Role};
use understudy_formats::host::host_name;
use understudy_formats::proc_maps::MappedFiles;
use understudy_launch::starter::BatchSystem;
use understudy_report::{Event, Job, Live, Process, bytes};

/// Name of the check.
const NAME: &str = "the program";
/// Poll interval of the memory.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time that a job may take to end after SIGTERM.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Value of `UNDERSTUDY_COPIES` in the trial.
const MEASURED: &str = "1";

/// Measured memory of a worker, and estimates for other settings, in bytes.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// Largest resident memory of a worker, with replicas and without files.
    pub worker: u64,
    /// Largest resident memory of an idle spare: MPI and understudy without any data.
    pub spare: u64,
    /// Memory of the program: the largest capture.
    pub program: u64,
    /// Largest capture after the first two checkpoints.
    pub changes: u64,
    /// Estimates for values of `UNDERSTUDY_COPIES`; `auto` stands for workers on a single node.
    pub estimates: BTreeMap<&'static str, u64>,
    pub available: u64,
    pub workers: u32,
}

impl Memory {
    fn new(worker: u64, spare: u64, captures: &[(Epoch, u64)], workers: u32) -> Self {
        let largest_capture = |from: u64| {
            captures
                .iter()
                .filter(|(epoch, _)| epoch.0 >= from)
                .map(|(_, bytes)| *bytes)
                .max()
        };
        // The first capture has the data that a program sets up before MPI_Init, the second one
        // those after MPI_Init.
        let (program, changes) = (
            largest_capture(0).unwrap_or(0),
            largest_capture(3).unwrap_or(0),
        );
        // Memory of a worker, as multiples of the program's memory and of the changes during a
        // checkpoint:
        //
        //   copies   memory    changes
        //   auto     2         1        its own memory, and the own replica
        //   1        3         2        and a replica that it stores for another worker
        //   2        4         3        and two of them
        //   xor:4    2 1/3     3        and a third of a replica, for which changes are sent,
        //                               received and combined
        //
        // The memory without that of an idle spare is scaled by the ratio of two such sums.
        let seen = worker.saturating_sub(spare) as f64;
        let share = |memory: f64, deltas: f64| memory * program as f64 + deltas * changes as f64;
        let estimate = |weight: f64| spare + (seen * weight / share(3.0, 2.0).max(1.0)) as u64;
        let estimates = [
            ("auto", estimate(share(2.0, 1.0))),
            (MEASURED, estimate(share(3.0, 2.0))),
            ("2", estimate(share(4.0, 3.0))),
            ("xor:4", estimate(share(2.0 + 1.0 / 3.0, 3.0))),
        ];
        Self {
            worker,
            spare,
            program,
            changes,
            estimates: estimates.into(),
            available: available_memory(),
            workers,
        }
    }

    pub fn describe(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "Memory of a worker: {} were measured; {} belong to MPI and understudy, about {} to \
             the program, of which {} change between checkpoints; the rest is replicas",
            bytes(self.worker),
            bytes(self.spare),
            bytes(self.program),
            bytes(self.changes)
        );
        for (copies, estimate) in &self.estimates {
            let all = estimate * u64::from(self.workers);
            let _ = writeln!(
                out,
                "  UNDERSTUDY_COPIES={copies:<6} about {:>10} for each, {:>10} for {} workers, of \
                 {} available here",
                bytes(*estimate),
                bytes(all),
                self.workers,
                bytes(self.available)
            );
        }
    }
}

/// Makes a directory for the event files of a job.
///
/// The name shows `understudy clean` that the directory may be removed if it is left over.
///
/// # Errors
/// Fails if the directory cannot be created.
pub fn event_directory() -> std::io::Result<TempDir> {
    let prefix = format!("{}{}-", crate::run::EVENTS_PREFIX, std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir()
}

/// Runs the program for a while; returns a check and, if possible, an estimate.
pub fn run(arguments: &Arguments) -> Result<(Check, Option<Memory>), Failure> {
    let events = event_directory()?;
    let mut child = command(arguments, events.path())?.spawn()?;
    let mut live = Live::new(events.path());
    let (began, mut largest, mut spare, mut ended) = (Instant::now(), 0, 0, None);
    let mut library = None;
    while ended.is_none() && began.elapsed() < Duration::from_secs(arguments.seconds) {
        std::thread::sleep(POLL_INTERVAL);
        if let Ok(Some(state)) = live.poll() {
            let processes = on_this_node(state.processes.values());
            let mut pids = processes.iter().map(|process| process.pid);
            library = library.or_else(|| pids.find_map(mpi_library));
            let is_worker = |role| matches!(role, Role::Worker(_));
            largest = largest.max(resident_most(&processes, is_worker));
            spare = spare.max(resident_most(&processes, |role| !is_worker(role)));
        }
        ended = child.try_wait()?;
    }
    let was_long = ended.is_none();
    if was_long {
        end(&mut child)?;
    }
    let state = live.poll()?.cloned();
    let is_protected = state
        .as_ref()
        .is_some_and(|state| state.checkpoint.is_some());
    if let Some(check) = trial(is_protected, state.is_some(), ended, arguments.seconds) {
        return Ok((check, None));
    }
    let described = library.map(|file| mpi_version::describe(file.as_ref()));
    let with_library = described.map_or_else(String::new, |mpi| format!(" with {mpi}"));
    if largest == 0 || spare == 0 {
        let why = match was_long {
            true => "no worker and no spare run on this node, so their memory is not known",
            false => "to its end, which was too soon for an estimate of its memory",
        };
        let finding = format!("runs protected{with_library}, {why}");
        return Ok((Check::ok(NAME, finding), None));
    }
    let memory = Memory::new(largest, spare, &captures(events.path()), arguments.workers);
    let copies = if arguments.host.is_empty() {
        "auto"
    } else {
        "1"
    };
    let needed = memory.estimates[copies] * u64::from(arguments.workers);
    let check = if needed > memory.available + largest * u64::from(arguments.workers) {
        Check::failure(
            NAME,
            format!(
                "runs protected, but {} workers need more memory than this node has",
                arguments.workers
            ),
            "fewer workers on a node, or UNDERSTUDY_COPIES=xor:4",
        )
    } else {
        let time = if was_long {
            "and was ended after a while"
        } else {
            "to its end"
        };
        Check::ok(NAME, format!("runs protected{with_library}, {time}"))
    };
    Ok((check, Some(memory)))
}

/// Returns the check of a trial that was not protected, or that failed.
///
/// `None` for a trial that succeeded.
fn trial(
    is_protected: bool,
    has_begun: bool,
    ended: Option<ExitStatus>,
    seconds: u64,
) -> Option<Check> {
    let how = |status: ExitStatus| match status.code() {
        Some(code) => format!("exit status {code}"),
        None => status.to_string(),
    };
    match (is_protected, ended) {
        (true, None) => None,
        (true, Some(status)) if status.success() => None,
        (true, Some(status)) => Some(Check::failure(
            NAME,
            format!("ran protected, and failed with {}", how(status)),
            "see what it has printed; if it also fails without understudy, correct the program",
        )),
        (false, Some(status)) if status.success() && !has_begun => Some(Check::failure(
            NAME,
            "could not be protected: it has ended without a call of MPI_Init",
            "name an MPI program",
        )),
        (false, Some(status)) => Some(Check::failure(
            NAME,
            format!("could not be protected: it has ended with {}", how(status)),
            "see what it has printed; `understudy run` shows the same",
        )),
        (false, None) => {
            let phase = if has_begun {
                "in MPI_Init"
            } else {
                "before MPI_Init"
            };
            Some(Check::warning(
                NAME,
                format!("was still {phase} after {seconds} s, so there is no result"),
                "a longer --seconds",
            ))
        }
    }
}

/// Returns the command that runs the program as a protected job.
fn command(arguments: &Arguments, events: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([
        "run",
        "--progress",
        "none",
        "--interval",
        "1s",
        "--copies",
        MEASURED,
    ]);
    if let Some(mpirun) = &arguments.mpirun {
        command.args(["--mpirun", mpirun]);
    }
    command
        .args(["-n", &arguments.workers.to_string()])
        .arg("--events")
        .arg(events);
    for hosts in &arguments.host {
        command.args(["--host", hosts]);
    }
    match arguments.host.is_empty() {
        true => BatchSystem::hide_from(&mut command),
        false => drop(command.args(["--agent", &arguments.agent])),
    }
    if let Some(library) = &arguments.library {
        command.arg("--library").arg(library);
    }
    command.arg("--").args(&arguments.program);
    // The output of the program is not part of the doctor's.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

/// Ends a job by SIGTERM, later by SIGKILL.
///
/// # Errors
/// Fails if waitpid(2), or kill(2) with SIGKILL, fails.
pub fn end(child: &mut Child) -> std::io::Result<()> {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    let signalled = Instant::now();
    while signalled.elapsed() < TERMINATION_TIMEOUT {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    child.kill()?;
    child.wait().map(drop)
}

/// Returns the processes of this node.
///
/// The process number of a process on another node belongs to any process here.
fn on_this_node<'a>(processes: impl Iterator<Item = &'a Process>) -> Vec<&'a Process> {
    let own = host_name();
    processes.filter(|process| process.host == own).collect()
}

/// Returns the largest resident memory of the processes with a role that `has_role` accepts.
fn resident_most(processes: &[&Process], has_role: impl Fn(Role) -> bool) -> u64 {
    let processes = processes.iter().filter(|process| has_role(process.role));
    processes
        .map(|process| resident(process.pid))
        .max()
        .unwrap_or(0)
}

/// Returns the MPI library that a process has mapped (proc_pid_maps(5)).
///
/// The dependencies of the executable are not enough: an interpreter loads MPI through a module.
fn mpi_library(pid: u32) -> Option<String> {
    let mapped = MappedFiles::read(pid);
    let library = mapped.paths().find(|path| is_mpi(path))?;
    Some(library.to_string_lossy().into_owned())
}

fn is_mpi(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stems = ["libmpi.so.", "libmpich.so.", "libmpi_abi.so."];
    stems.iter().any(|stem| name.starts_with(stem))
}

/// Returns resident memory: `RssAnon` and `RssShmem` of `/proc/PID/status` (proc(5)).
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        text.lines().find_map(|line| {
            line.strip_prefix(name)?
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        })
    };
    (field("RssAnon:").unwrap_or(0) + field("RssShmem:").unwrap_or(0)) * 1024
}

/// Returns the checkpoint and the number of bytes of each capture.
fn captures(events: &Path) -> Vec<(Epoch, u64)> {
    let timeline = Job::load(events).map(|job| job.timeline);
    let capture = |event: Event| match event.kind {
        Kind::Capture { epoch, bytes, .. } => Some((epoch, bytes)),
        _ => None,
    };
    timeline
        .unwrap_or_default()
        .iter()
        .filter_map(capture)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Grade;
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use understudy_formats::events::Worker;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn several_hosts_have_one_agent() {
        let words = ["doctor", "--host", "a:2", "--host", "b:2", "--", "program"];
        let line = <Line as clap::Parser>::parse_from(words);
        let command = command(&line.arguments, Path::new("events")).expect("a command");
        let count = |word: &str| command.get_args().filter(|it| *it == word).count();
        assert_eq!((count("--host"), count("--agent")), (2, 1));
    }

    /// A worker on another node has the process number of this process.
    ///
    /// The memory of that worker is not known.
    #[test]
    fn the_memory_of_this_node_is_measured() {
        let most = |host: &str| {
            let process = Process {
                pid: std::process::id(),
                host: host.to_owned(),
                role: Role::Worker(Worker(0)),
                end: None,
                has_failed: false,
            };
            resident_most(&on_this_node([&process].into_iter()), |_| true)
        };
        assert!(most(&host_name()) > 0);
        assert_eq!(most("another node"), 0);
    }

    #[test]
    fn the_mapped_mpi_library_is_found() {
        for mpi in ["/opt/a b/libmpi.so.40.40.7", "/usr/lib/libmpich.so.12.1"] {
            assert!(is_mpi(Path::new(mpi)), "{mpi}");
        }
        assert!(!is_mpi(Path::new("/usr/lib/libmpi_cxx.so.40")));
        assert_eq!(mpi_library(std::process::id()), None);
    }

    #[test]
    fn a_trial_that_was_too_short_is_no_failure_and_a_program_that_fails_is_one() {
        let exit = |code: i32| Some(ExitStatus::from_raw(code << 8));
        assert!(trial(true, true, None, 5).is_none() && trial(true, true, exit(0), 5).is_none());
        let grade = |check: Option<Check>| check.map(|check| (check.grade, check.finding));
        let (failed, why) = grade(trial(true, true, exit(3), 5)).expect("a finding");
        assert!(
            failed == Grade::Failure && why.contains("exit status 3"),
            "{why}"
        );
        let (short, why) = grade(trial(false, false, None, 5)).expect("a finding");
        assert!(
            short == Grade::Warning && why.contains("there is no result"),
            "{why}"
        );
        let (other, why) = grade(trial(false, false, exit(0), 5)).expect("a finding");
        assert!(
            other == Grade::Failure && why.contains("without a call of MPI_Init"),
            "{why}"
        );
    }
}
