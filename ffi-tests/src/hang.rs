//! Diagnosis of a job that does not end.

use crate::processes;
use std::fmt::Write;
use std::process::Command;

/// Describes each process for the message of a failed test.
///
/// The text lists the threads of each process with their states, the kernel functions and system
/// calls in which the threads wait, and, if gdb is installed, their stacks.
pub fn describe(pids: impl IntoIterator<Item = u32>) -> String {
    let mut text = String::new();
    for pid in pids {
        let [command, environment] = processes::words(pid);
        let rank = environment
            .iter()
            .find(|entry| entry.starts_with("OMPI_COMM_WORLD_RANK="));
        let _ = writeln!(text, "process {pid} {rank:?}: {}", command.join(" "));
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let read =
                |file: &str| std::fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let status = read("status");
            let state = status.lines().find(|line| line.starts_with("State:"));
            let id = thread.file_name();
            let call = read("syscall");
            let _ = writeln!(
                text,
                "  {}: {state:?}, {}, {}",
                id.display(),
                read("wchan"),
                call.trim()
            );
        }
        text += &stacks(pid);
    }
    text
}

fn stacks(pid: u32) -> String {
    let mut command = Command::new("timeout");
    command.args([
        "10",
        "gdb",
        "-batch",
        "-p",
        &pid.to_string(),
        "-ex",
        "thread apply all bt 20",
    ]);
    let printed = command
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    let printed = String::from_utf8_lossy(&printed);
    let lines = printed.lines().filter(|line| line.starts_with(['#', 'T']));
    lines.fold(String::new(), |text, line| text + "    " + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn a_thread_has_its_state() {
        let text = describe([std::process::id()]);
        assert!(text.contains("State:\\tR"), "{text}");
    }
}
