//! Child processes of the program.
//!
//! A program that is rolled back starts its children a second time. Therefore the children that it
//! has started since the checkpoint are killed, with all their descendants, and waited for. The
//! children of a failed process are killed by its guardian (`guarded_process` of `ckptd/launch`).
//! Changes of files by children are undone ([`super::undo`]). Two cases are not covered, and the
//! user is warned of them: a child that runs at a checkpoint is not saved, and changes of files by
//! a child without the preload library are not undone.
#![allow(unsafe_code)]

use super::signals;
use crate::process_info;
use crate::runtime_state::StateCell;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use understudy_catalogue::message;
use understudy_formats::proc_stat;

/// Process: its number, and its start in clock ticks since the host's boot (proc(5), `stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, bincode::Encode, bincode::Decode)]
struct ChildProcess {
    pid: i32,
    start: u64,
}

/// Children at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct ChildrenAtCut(BTreeSet<ChildProcess>);

/// Recorded children of this process.
pub(super) struct Children {
    /// Children at the latest cut.
    at_cut: StateCell<ChildrenAtCut>,
    /// True once this process has warned of a child that runs at a cut.
    has_warned: Cell<bool>,
}

impl Children {
    /// State at the start of the process.
    pub(super) const fn new() -> Children {
        Children {
            at_cut: StateCell::new(ChildrenAtCut(BTreeSet::new())),
            has_warned: Cell::new(false),
        }
    }

    /// Records and returns the children at a cut; warns of the first child.
    pub(super) fn capture(&self) -> ChildrenAtCut {
        let children = ChildrenAtCut(children().collect());
        if let Some(child) = children.0.first() {
            self.warn_of_running(child.pid);
        }
        self.at_cut.set(children.clone());
        children
    }

    /// Warns the user of a child that runs at a cut.
    fn warn_of_running(&self, child: i32) {
        if !self.has_warned.replace(true) && process_info::is_first_to_warn("child") {
            log::warn!("{}", message::child_process(name(child)));
        }
    }

    /// Kills the children that were started since the latest cut.
    ///
    /// All threads of the program must be stopped, and the children that change files suspended.
    pub(super) fn kill_started_since_cut(&self) {
        kill_newer(&self.at_cut.borrow());
    }

    /// Kills the children that this process has started since the cut.
    ///
    /// All threads of the program must be stopped.
    pub(super) fn restore(&self, saved: &ChildrenAtCut) {
        kill_newer(saved);
        self.at_cut.set(saved.clone());
    }
}

fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid}, {}", name.trim())
}

fn kill_newer(saved: &ChildrenAtCut) {
    let newer: Vec<ChildProcess> = children().filter(|it| !saved.0.contains(it)).collect();
    if newer.is_empty() {
        return;
    }
    let before = signals::mask(Some(u64::MAX));
    for child in newer {
        kill_tree(child.pid);
        // SAFETY: waitpid(2) of a killed child of this process writes no status to a null pointer.
        unsafe { libc::waitpid(child.pid, std::ptr::null_mut(), libc::__WALL) };
    }
    signals::discard_pending(libc::SIGCHLD);
    signals::mask(Some(before));
}

/// Kills a process and all its descendants.
///
/// Each process is stopped first, so that it cannot start other processes.
fn kill_tree(pid: i32) {
    // SAFETY: the number belongs to a child that has not been waited for, or to a descendant of
    // such a child. kill(2) accesses no memory.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    children_of(&format!("/proc/{pid}/task")).for_each(kill_tree);
    // SAFETY: kill(2) accesses no memory, and the stopped process still exists.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Lists the program's children that have not been waited for.
fn children() -> impl Iterator<Item = ChildProcess> {
    let any = has_any().then(|| children_of("/proc/self/task"));
    let pids = any.into_iter().flatten();
    pids.filter_map(|pid| {
        Some(ChildProcess {
            pid,
            start: proc_stat::number(pid as u32, proc_stat::START)?,
        })
    })
}

/// True if this process has a child that has not been waited for.
pub(super) fn has_any() -> bool {
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: waitid(2) that reaps no child and fills a structure of this function.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &raw mut info, options) == 0
    }
}

/// Lists the children of the threads in a directory (proc(5), `/proc/pid/task/tid/children`).
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
