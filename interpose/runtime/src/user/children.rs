//! Child processes of the program.
//!
//! A process that is set back starts its children again. So those that it has started since the
//! checkpoint are killed, with all of their descendants, and waited for. Children of a process that
//! was killed do not outlive it (`ckptd::launch::ward`). A child that runs at the checkpoint is not
//! in it, and what children write to files is not undone: one line warns of either. That line is
//! printed at the next checkpoint, at a recovery, or at the end of a job that has recovered.
#![allow(unsafe_code)]

use super::signals;
use crate::told;
use crate::user::Runtime;
use ckptd::proc_stat;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;

/// A process: its number, and its start in clock ticks since the host's (proc(5), `stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
struct Process {
    pid: i32,
    start: u64,
}

/// The children at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Saved(BTreeSet<Process>);

/// Children of this process, as far as they are known.
pub(super) struct Children {
    /// Page faults of all children that have been waited for (getrusage(2), `ru_minflt`).
    faults: Cell<i64>,
    /// This process has warned of a child that has ended, and of one that runs.
    has_warned: [Cell<bool>; 2],
}

impl Children {
    /// At the start of the process.
    pub(super) const fn new() -> Children {
        Children {
            faults: Cell::new(0),
            has_warned: [Cell::new(false), Cell::new(false)],
        }
    }
}

/// Takes the children so far for none of the program's.
///
/// To be called at its start, and after the runtime has waited for a child of its own.
pub fn begin(rt: &Runtime) {
    rt.children.faults.set(faults());
}

/// Returns the children at a cut.
pub fn capture(rt: &Runtime) -> Saved {
    let children = Saved(children().collect());
    warn_of_ended(rt);
    if let Some(child) = children.0.first() {
        warn_once(rt, Some(child.pid));
    }
    children
}

/// Warns of children that the program has waited for since this was last asked.
pub fn warn_of_ended(rt: &Runtime) {
    let now = faults();
    if rt.children.faults.replace(now) != now {
        warn_once(rt, None);
    }
}

/// Says that the program has, or has had, child processes.
fn warn_once(rt: &Runtime, child: Option<i32>) {
    let subject = ["ended-child", "child"][usize::from(child.is_some())];
    let has_warned = &rt.children.has_warned[usize::from(child.is_some())];
    if has_warned.replace(true) || !told::is_first_to_warn(subject) {
        return;
    }
    match child {
        Some(pid) => log::warn!(
            "the program has a child process ({}) at a checkpoint, which is not in it: after a \
             failure it may be missing, and files that child processes change stay as they are. \
             Let the program wait for child processes before it communicates",
            name(pid)
        ),
        None => log::warn!(
            "the program runs child processes: files that they change stay as they are if a \
             failure sets the program back. Let the program itself change them"
        ),
    }
}

fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid}, {}", name.trim())
}

/// Ends the children that this process has started since the cut.
///
/// All of the program's threads must be stopped.
pub fn restore(rt: &Runtime, saved: &Saved) {
    warn_of_ended(rt);
    let newer: Vec<Process> = children().filter(|it| !saved.0.contains(it)).collect();
    if newer.is_empty() {
        return;
    }
    let before = signals::mask(Some(u64::MAX));
    for child in newer {
        end(child.pid);
        // SAFETY: waitpid(2) for a child of this process, which has been killed.
        unsafe { libc::waitpid(child.pid, std::ptr::null_mut(), libc::__WALL) };
    }
    signals::forget(libc::SIGCHLD);
    signals::mask(Some(before));
    begin(rt);
}

/// Kills a process and all of its descendants, none of which can start others meanwhile.
fn end(pid: i32) {
    // SAFETY: kill(2) of a child that has not been waited for, or of a descendant.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    children_of(&format!("/proc/{pid}/task")).for_each(end);
    // SAFETY: as above.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// The program's children that have not been waited for.
fn children() -> impl Iterator<Item = Process> {
    let any = has_any().then(|| children_of("/proc/self/task"));
    let pids = any.into_iter().flatten();
    pids.filter_map(|pid| {
        Some(Process {
            pid,
            start: proc_stat::number(pid as u32, proc_stat::START)?,
        })
    })
}

/// Returns true if this process has a child that has not been waited for.
pub(super) fn has_any() -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: waitid(2) that takes nothing and fills a structure of this function.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &raw mut info, options) == 0
    }
}

/// The children of the threads in this directory (proc(5), `/proc/pid/task/tid/children`).
fn children_of(threads: &str) -> impl Iterator<Item = i32> + use<> {
    let threads = fs::read_dir(threads).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let pids = lists.flat_map(|list| {
        let list = list.unwrap_or_default();
        let pids: Vec<i32> = list
            .split_whitespace()
            .filter_map(|it| it.parse().ok())
            .collect();
        pids
    });
    pids.collect::<Vec<_>>().into_iter()
}

fn faults() -> i64 {
    // SAFETY: getrusage(2) fills a structure of this function.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage.ru_minflt
    }
}
