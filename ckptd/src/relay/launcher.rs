//! The process that has started the ranks of this node.

use super::job::lives;
use super::sys;
use std::time::{Duration, Instant};

/// Names of launchers. Any other parent is a script, which knows nothing of the other ranks.
const LAUNCHERS: [&str; 4] = ["prterun", "mpirun", "mpiexec", "prted"];

/// Children of a launcher (proc(5), `/proc/PID/task/TID/children`); one that cannot be ruled out where this is not known.
pub(super) fn children(pid: u32) -> Vec<u32> {
    if is_launcher(pid) {
        children_of(pid)
    } else {
        vec![std::process::id()]
    }
}

fn name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

pub(super) fn is_launcher(pid: u32) -> bool {
    LAUNCHERS.contains(&name(pid).as_str())
}

/// Whether a process is ckptd's own launcher, and lives: it looks after its processes and what they leave by itself.
pub(super) fn looks_after_ranks(pid: u32) -> bool {
    name(pid) == "ckptd" && lives(pid)
}

/// Whether a process is a launcher, be it mpirun or ckptd's own.
#[cfg(feature = "cli")]
pub(super) fn has_started_ranks(pid: u32) -> bool {
    is_launcher(pid) || name(pid) == "ckptd"
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists: Option<Vec<String>> = tasks
        .map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .collect();
    match lists {
        Some(lists) if !lists.is_empty() => lists
            .iter()
            .flat_map(|list| list.split_whitespace())
            .filter_map(|child| child.parse().ok())
            .collect(),
        _ => vec![std::process::id()],
    }
}

/// How long a launcher that has been told to end the job may take, then after it was told again.
const PATIENCE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(2)];
/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(50);

/// Sees to it that a launcher without ranks ends. Open MPI's may miss the end of a rank while it ends the job, and then
/// stays for ever; it gives up at once when it is told a second time.
pub(super) fn see_off(pid: u32) {
    let is_gone = || !lives(pid) || !is_launcher(pid);
    let goes_within = |patience: Duration| {
        let begin = Instant::now();
        while !is_gone() && begin.elapsed() < patience {
            std::thread::sleep(PERIOD);
        }
        is_gone()
    };
    for (patience, signal) in PATIENCE.into_iter().zip([libc::SIGTERM, libc::SIGKILL]) {
        if goes_within(patience) {
            return;
        }
        sys::signal(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_is_a_child() {
        assert!(lives(std::process::id()));
        assert!(!lives(u32::MAX));
        let parent = std::os::unix::process::parent_id();
        assert!(children_of(parent).contains(&std::process::id()));
    }
}
