//! States of processes.

use understudy_formats::proc_stat;

/// True if a process exists and is not a zombie (proc_pid_stat(5)).
pub fn lives(pid: u32) -> bool {
    let state = proc_stat::field(pid, proc_stat::STATE);
    state.is_some_and(|state| !["Z", "X"].contains(&&*state))
}
