//! Death of a job's processes on a host, as by the loss of the host.
//!
//! This program is started on the host by the agent of the job. It finds the processes of the job
//! by a variable of their environment, and kills them until none is left.

use crate::outcome::{Failure, IMPOSSIBLE, Outcome, print, verdict};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use understudy_formats::proc_stat::{self, Stat};
use understudy_launch::starter::Agent;
use understudy_node::leftovers_of_job;
use understudy_report::Live;

/// Number of rounds after which processes that are still there count as immortal.
const MAX_ROUNDS: u32 = 100;
const ROUND_INTERVAL: Duration = Duration::from_millis(10);
/// Name of the processes that start and supervise the ranks.
const SUPERVISOR: &str = "ckptd";

/// Kills the processes of a job on a host; returns their number.
///
/// `events` is the directory of the job's event files. The error is the reason.
pub fn kill_on(host: &str, events: &Path, agent: &Agent) -> Result<u32, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut words: Vec<OsString> = agent.words().into_iter().map(OsString::from).collect();
    words.extend([host.into(), program.into(), "accept".into()]);
    words.extend(["--kill-processes".into(), events.into()]);
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{} cannot be executed: {error}", words[0].display()))?;
    let number = String::from_utf8_lossy(&output.stdout).trim().parse();
    number.map_err(|_| {
        let messages = String::from_utf8_lossy(&output.stderr);
        let first = messages.lines().find(|line| !line.trim().is_empty());
        first.unwrap_or("no reason is given").trim().to_owned()
    })
}

/// Kills the processes of a job on this host, and prints their number.
///
/// # Errors
/// Fails if processes are left after many rounds.
pub fn kill_here(events: &Path) -> Outcome {
    let mut killed = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let found = processes_of(events);
        if found.is_empty() {
            remove_leftovers(events);
            print(format!("{}\n", killed.len()))?;
            return Ok(verdict(true));
        }
        for pid in found {
            if let Some(process) = Pid::from_raw(pid)
                && kill_process(process, Signal::KILL).is_ok()
            {
                killed.insert(pid);
            }
        }
        std::thread::sleep(ROUND_INTERVAL);
    }
    let text = "processes of the job cannot be killed";
    Err(Failure::with_status(IMPOSSIBLE, text))
}

/// Removes what the killed processes have left in memory.
///
/// `understudy clean` can remove the rest.
fn remove_leftovers(events: &Path) {
    if let Ok(Some(state)) = Live::new(events).poll() {
        for leftover in leftovers_of_job(&state.job) {
            let _ = leftover.remove();
        }
    }
}

/// A process, as `/proc/PID/stat` describes it (proc_pid_stat(5)).
struct ProcessEntry {
    parent: i32,
    name: String,
    is_marked: bool,
}

/// Returns the processes whose environment names the directory, and their supervisors.
fn processes_of(events: &Path) -> Vec<i32> {
    let mark = [b"UNDERSTUDY_EVENTS=", events.as_os_str().as_bytes()].concat();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: BTreeMap<i32, ProcessEntry> = numbers
        .filter_map(|pid| Some((pid, entry_of(pid, &mark)?)))
        .collect();
    chosen(&processes, getpid().as_raw_nonzero().get())
}

fn entry_of(pid: i32, mark: &[u8]) -> Option<ProcessEntry> {
    let stat = Stat::read(pid as u32)?;
    // A zombie is dead already.
    let is_dead = stat.field(proc_stat::STATE)? == "Z";
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let is_marked = environment.split(|byte| *byte == 0).any(|it| it == mark);
    (!is_dead).then_some(ProcessEntry {
        parent: stat.number(proc_stat::PARENT)?,
        name: stat.command_name()?.to_owned(),
        is_marked,
    })
}

/// Returns the marked processes and the supervisors above them, without `own` and its parents.
fn chosen(processes: &BTreeMap<i32, ProcessEntry>, own: i32) -> Vec<i32> {
    let mut all = BTreeSet::new();
    let marked = processes.iter().filter(|(_, it)| it.is_marked);
    for (&pid, entry) in marked {
        all.insert(pid);
        let mut parent = entry.parent;
        while let Some(above) = processes.get(&parent).filter(|it| it.name == SUPERVISOR) {
            all.insert(parent);
            parent = above.parent;
        }
    }
    let mut here = Some(own);
    while let Some(pid) = here {
        all.remove(&pid);
        here = processes.get(&pid).map(|it| it.parent);
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_processes_and_their_supervisors_are_chosen() {
        let entry = |parent, name: &str, is_marked| ProcessEntry {
            parent,
            name: name.into(),
            is_marked,
        };
        let processes = BTreeMap::from([
            (1, entry(0, "init", false)),
            (2, entry(1, "ckptd", false)),
            (3, entry(2, "ckptd", true)),
            (4, entry(3, "acceptance", true)),
            (5, entry(1, "ckptd", false)),
            (6, entry(1, "understudy", true)),
        ]);
        assert_eq!(chosen(&processes, 6), [2, 3, 4]);
    }

    #[test]
    fn a_process_with_the_variable_is_found_and_killed() {
        let events = Path::new("/nowhere/events of the acceptance");
        let mut child = Command::new("sleep")
            .arg("60")
            .env("UNDERSTUDY_EVENTS", events)
            .spawn()
            .expect("there is a sleep(1)");
        while processes_of(events).is_empty() {
            std::thread::yield_now();
        }
        assert!(kill_here(events).is_ok());
        assert!(!child.wait().expect("a child").success());
    }
}
